"""Work and photos on the servers of the test session, as the worker's own tests have them."""

from tests.integration.photos.conftest import album, photos
from tests.integration.worker.conftest import work

__all__ = ["album", "photos", "work"]
