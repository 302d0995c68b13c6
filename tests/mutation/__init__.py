"""Small bugs that somebody could write, each with the tests that ought to notice: `./run mutate`."""
