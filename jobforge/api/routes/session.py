"""Routes of dashboard sessions: exchange a key for a cookie that scripts cannot read."""

import time
from dataclasses import asdict

from starlette.requests import Request

from jobforge import calls
from jobforge.api.auth.principal import Principal
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.keys import Credentials, OwnTenant, Whoami
from jobforge.api.state import ServerState

router = create_router("session")


@router.get("/session", response_model=Whoami, summary="Get the current principal")
async def show_session(caller: Caller) -> JsonResponse:
    """Returns the principal of the request's key, token or cookie."""
    return JsonResponse(_principal_to_json(caller.principal))


@router.post("/session", status_code=201, response_model=Whoami, summary="Sign in to the dashboard")
async def begin_session(body: Credentials, request: Request) -> JsonResponse:
    """Sets a cookie for the key; it is valid until it expires or the key ends. Pages must send a
    value from their address as `ticket`, never as `key`: a link with an API key must not sign in.
    """
    server: ServerState = request.app.state.server
    authentication = server.authentication
    authentication.check_origin_if_sent(request)
    login = await authentication.begin_session(request, key=body.key, ticket=body.ticket)
    response = JsonResponse(_principal_to_json(login.principal), 201)
    response.set_cookie(
        login.cookie,
        login.value,
        max_age=login.expires - int(time.time()),
        path="/",
        httponly=True,
        samesite="lax",
        secure=authentication.is_secure(request),
    )
    return response


@router.delete("/session", status_code=204, summary="Sign out of the dashboard")
async def end_session(request: Request) -> JsonResponse:
    """This server rejects the cookie at once, and all other servers within a second."""
    server: ServerState = request.app.state.server
    authentication = server.authentication
    authentication.check_origin_if_sent(request)
    await authentication.end_session(request)
    response = JsonResponse(status=204)
    response.delete_cookie(
        authentication.cookie_name(request),
        path="/",
        httponly=True,
        samesite="lax",
        secure=authentication.is_secure(request),
    )
    return response


@router.get("/session/tenant", response_model=OwnTenant, summary="Get the current tenant")
async def show_tenant(caller: Caller) -> JsonResponse:
    """Returns the limits and the time zone of the tenant. A tenant without settings has the
    defaults.
    """
    found = await caller.run(calls.list_tenants())
    tenant = asdict(found[0]) if found else {"id": caller.tenant_id, "timezone": "UTC", "weight": 1}
    return JsonResponse({name: tenant.get(name) for name in OwnTenant.model_fields})


def _principal_to_json(principal: Principal) -> dict[str, object]:
    return {
        "actor": principal.actor,
        "role": principal.role,
        "tenant_id": principal.tenant_id,
        "scopes": sorted(principal.scopes or ()),
        "key_id": principal.key_id,
    }
