"""HTTP to addresses that users named, and to none that are not for the public: see `addresses.py` for the rule."""
