"""Videos: what is in them, a poster and a preview, and MP4 for the web. The only importer of PyAV, in child processes."""
