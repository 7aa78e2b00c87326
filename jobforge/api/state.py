"""What the requests of one server share: configuration, connections, and what is remembered."""

from functools import cached_property

from jobforge.api.auth.access_audit import Accesses
from jobforge.api.auth.authentication import Authentication
from jobforge.api.auth.rate_limit import Rates
from jobforge.api.enqueue_batcher import Creations
from jobforge.api.live.hub import Hub
from jobforge.api.live.stream_limits import Streams
from jobforge.api.metrics import Scrapes
from jobforge.api.operations_loop import Progress
from jobforge.api.payload_check import Payloads
from jobforge.api.request_metrics import Traffic
from jobforge.api.workers.ownership import Fleet
from jobforge.artifacts import open_artifacts
from jobforge.artifacts.store_identity import StoreUse
from jobforge.artifacts.sweep import Sweep
from jobforge.config import Config
from jobforge.connectors.egress import Policy, policy_of, read_url
from jobforge.db import Database
from jobforge.db.loop import Loop
from jobforge.errors import Unavailable
from jobforge.sdk.tenancy import Slugs
from jobforge.security.vault import Vault, open_vault


class Server:
    """Made before the first request; its database is opened and closed by the application."""

    def __init__(self, config: Config, database: Database, traffic: Traffic) -> None:
        self.config = config
        self.database = database
        self.authentication = Authentication(config, database)
        self.rates = Rates(config, database)
        self.creations = Creations(database)
        self.payloads = Payloads(database)
        self.hub = Hub(database)
        self.streams = Streams(config.streams_per_key)
        self.fleet = Fleet(database)
        self.accesses = Accesses(database)
        self.scrapes = Scrapes(database, traffic)
        self.slugs = Slugs()
        self.artifacts = open_artifacts(config)
        self.progress = Progress(database, self.artifacts)
        self.sweeping = Loop("sweep", Sweep(database.run, self.artifacts).step)
        using = StoreUse("server", self.artifacts, database.run)
        self.recording = Loop("artifact store", using.step)
        self._is_closing = False

    @cached_property
    def vault(self) -> Vault:
        """Raises ConfigError where no secret_key is set."""
        return open_vault(self.config)

    def check_url(self, url: str) -> None:
        """Raises Invalid or AddressNotAllowed for what no connector may reach."""
        read_url(url, self.policy)

    @cached_property
    def policy(self) -> Policy:
        """What connectors may reach."""
        return policy_of(self.config)

    def close(self) -> None:
        """The end is near: what lasts is to end by itself."""
        self._is_closing = True
        self.progress.stop()
        self.hub.stop()
        self.fleet.stop()
        self.sweeping.stop()
        self.recording.stop()

    def check_open(self) -> None:
        """Raises Unavailable."""
        if self._is_closing:
            raise Unavailable("the server is about to end")
