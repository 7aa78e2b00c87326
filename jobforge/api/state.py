"""State shared by all requests of a server: configuration, connections and caches."""

from functools import cached_property
from uuid import UUID

from jobforge.api.auth.authentication import Authentication
from jobforge.api.auth.operator_audit import AccessAuditor
from jobforge.api.enqueue_batcher import EnqueueBatcher
from jobforge.api.live.hub import Hub
from jobforge.api.live.stream_limits import StreamLimiter
from jobforge.api.metrics import MetricsCollector
from jobforge.api.operations_loop import operations_loop
from jobforge.api.payload_check import PayloadChecker
from jobforge.api.rate_limit import RateLimiter
from jobforge.api.request_metrics import RequestMetrics
from jobforge.api.workers.claim_notifier import ClaimNotifier
from jobforge.api.workers.ownership import RemoteWorkers
from jobforge.artifacts import open_artifacts
from jobforge.artifacts.store_identity import StoreRecorder
from jobforge.artifacts.sweep import ArtifactSweeper
from jobforge.config import Config
from jobforge.connectors.egress import Policy, policy_from_config, read_url
from jobforge.db import Database
from jobforge.db.background_loop import BackgroundLoop
from jobforge.errors import Unavailable
from jobforge.security.vault import Vault, open_vault
from jobforge.timing.ttl_cache import TtlCache

_TENANT_ID_TTL_S = 60.0


class ServerState:
    """Created before the first request; the application opens and closes its database."""

    def __init__(self, config: Config, database: Database, request_metrics: RequestMetrics) -> None:
        self.config = config
        self.database = database
        self.authentication = Authentication(config, database)
        self.rate_limiter = RateLimiter(config, database)
        self.enqueue_batcher = EnqueueBatcher(database)
        self.payload_checker = PayloadChecker(database)
        self.hub = Hub(database)
        self.stream_limiter = StreamLimiter(config.streams_per_key)
        self.remote_workers = RemoteWorkers(database)
        self.access_auditor = AccessAuditor(database)
        self.metrics_collector = MetricsCollector(database, request_metrics)
        self.tenant_ids: TtlCache[str, UUID] = TtlCache(_TENANT_ID_TTL_S)  # by slug
        self.artifacts = open_artifacts(config)
        self.operations_loop = operations_loop(database, self.artifacts)
        recorder = StoreRecorder("server", self.artifacts, database.run)
        self.loops: list[BackgroundLoop | Hub | ClaimNotifier] = [
            self.operations_loop,
            self.hub,
            self.remote_workers.claim_notifier,
            BackgroundLoop("artifact store", recorder.step),
        ]
        if self.artifacts.is_configured:
            sweeper = ArtifactSweeper(database.run, self.artifacts)
            self.loops.append(BackgroundLoop("sweep", sweeper.step))
        self._is_closing = False

    @cached_property
    def vault(self) -> Vault:
        """Return the vault; raise ConfigError if secret_key is not set."""
        return open_vault(self.config)

    def check_url(self, url: str) -> None:
        """Raise Invalid or AddressNotAllowed if connectors may not reach this URL."""
        read_url(url, self.policy)

    @cached_property
    def policy(self) -> Policy:
        """Egress policy of connectors."""
        return policy_from_config(self.config)

    def close(self) -> None:
        """Begin shutdown: stop background loops and end live streams."""
        self._is_closing = True
        for loop in self.loops:
            loop.stop()

    def check_open(self) -> None:
        """Raise Unavailable during shutdown."""
        if self._is_closing:
            raise Unavailable("The server is shutting down")
