"""What the requests of one server share: configuration, connections, and what is remembered."""

from jobforge.api.accesses import Accesses
from jobforge.api.authentication import Authentication
from jobforge.api.creations import Creations
from jobforge.api.fleet import Fleet
from jobforge.api.payloads import Payloads
from jobforge.api.progress import Progress
from jobforge.api.rates import Rates
from jobforge.api.stream import Hub
from jobforge.config import Config
from jobforge.db import Database
from jobforge.errors import Unavailable
from jobforge.tenants import Slugs


class Server:
    """Made before the first request; its database is opened and closed by the application."""

    def __init__(self, config: Config, database: Database) -> None:
        self.config = config
        self.database = database
        self.authentication = Authentication(config, database)
        self.rates = Rates(config, database)
        self.creations = Creations(database)
        self.payloads = Payloads(database)
        self.progress = Progress(database)
        self.hub = Hub(database)
        self.fleet = Fleet(database)
        self.accesses = Accesses(database)
        self.slugs = Slugs()
        self._is_closing = False

    def close(self) -> None:
        """The end is near: what lasts is to end by itself."""
        self._is_closing = True
        self.progress.stop()
        self.hub.stop()
        self.fleet.stop()

    def check_open(self) -> None:
        """Raises Unavailable."""
        if self._is_closing:
            raise Unavailable("the server is about to end")
