"""Nothing reaches from one workspace into another, and nobody does more than their role: every route is tried."""
