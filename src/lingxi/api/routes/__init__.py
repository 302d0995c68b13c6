"""Routes by what they are about; each says with `documented` what it answers."""
