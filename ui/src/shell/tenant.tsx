/** The tenant of this dashboard, with a menu to switch tenants for super admins. */

import { useQuery } from "@tanstack/react-query";
import { ChevronsUpDown, Eye, Pencil } from "lucide-react";
import { tenants } from "@/api/queries";
import { installationHref, tenant, tenantHref } from "@/config";
import { Button } from "@/parts/button";
import { Menu } from "@/parts/menu";
import { acting, setActing, useSession } from "@/session";

export function TenantName() {
  const { isSuper } = useSession();
  if (!isSuper) return <>JobForge</>;
  return <TenantSwitch />;
}

function TenantSwitch() {
  const { data } = useQuery(tenants());
  const items = (data?.items ?? []).slice(0, 100).map((each) => ({
    label: each.name ?? each.slug ?? each.id,
    act: () => location.assign(tenantHref(each.slug ?? each.id)),
  }));
  return (
    <Menu
      label="Tenants"
      trigger={(props) => (
        <button
          type="button"
          {...props}
          className="flex max-w-full items-center gap-1 rounded-md px-1 hover:bg-hover"
        >
          <span className="truncate">{tenant ?? "Installation"}</span>
          <ChevronsUpDown size={13} className="shrink-0 text-faint" aria-label="Switch tenant" />
        </button>
      )}
      items={[{ label: "Installation", act: () => location.assign(installationHref) }, ...items]}
    />
  );
}

export function TenantBanner() {
  const acts = acting.use();
  return (
    <section
      aria-label="View as tenant"
      className="flex flex-wrap items-center gap-x-3 gap-y-1 border-line border-b bg-warn-soft px-4 py-1.5 text-warn lg:px-6"
    >
      {acts ? <Pencil size={14} aria-hidden /> : <Eye size={14} aria-hidden />}
      <p className="min-w-0 flex-1">
        {acts ? "You are acting as" : "You are viewing"} <strong>{tenant}</strong> as a super admin.
        The tenant's audit log records this.
      </p>
      <Button look="quiet" className="!text-warn" onClick={() => setActing(!acts)}>
        {acts ? "View only" : "Allow actions"}
      </Button>
      <Button look="quiet" className="!text-warn" onClick={() => location.assign(installationHref)}>
        Leave tenant
      </Button>
    </section>
  );
}
