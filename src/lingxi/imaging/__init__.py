"""Pictures: what a file is, whether it may be decoded, and decoding in children that can be killed."""
