/** The tenants of this installation and their limits. */

import { useQuery } from "@tanstack/react-query";
import { Eye, Pause, Play, Plus, SlidersHorizontal } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { client, database, tenants, usage } from "@/api/queries";
import type { TenantInfo } from "@/api/schema";
import { tenantHref } from "@/config";
import { Limits } from "@/jobs/limits";
import { short } from "@/jobs/short-count";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Id } from "@/parts/copy";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Field, Input } from "@/parts/form";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Count, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { toastError } from "@/parts/toasts";
import { useSession } from "@/session";

export function Page() {
  const { may } = useSession();
  const query = useQuery(tenants());
  const used = useQuery(usage(3600));
  const state = useQuery(database());
  const [open, setOpen] = useState<TenantInfo | "new" | null>(null);
  const ran = new Map(used.data?.items.map((each) => [each.tenant_id, each.attempts]));
  const waits = new Map(state.data?.waiting.map((each) => [each.tenant_id, each.queued]));
  const columns: Column<TenantInfo>[] = [
    {
      title: "Tenant",
      isMain: true,
      by: (row) => row.name ?? row.slug,
      cell: (row) => (
        <span className="flex min-w-0 flex-col">
          <span className="flex items-center gap-2">
            <a
              href={tenantHref(row.slug ?? row.id)}
              className="truncate font-medium hover:text-accent"
            >
              {row.name ?? row.slug ?? row.id}
            </a>
            {row.paused_at && (
              <span className="inline-flex items-center gap-1 rounded bg-warn-soft px-1.5 font-medium text-warn text-xs">
                <Pause size={11} aria-hidden /> Paused
              </span>
            )}
          </span>
          <span className="text-faint">
            <Id id={row.id} />
          </span>
        </span>
      ),
    },
    { title: "Slug", isWide: true, cell: (row) => row.slug ?? "–" },
    { title: "Weight", align: "right", by: (row) => row.weight, cell: (row) => row.weight },
    countOf("Queued", waits),
    { ...countOf("Attempts in 1 h", ran), isWide: true },
    {
      title: "Limits",
      isWide: true,
      cell: (row) => <Limits row={{ ...row, rate_period_s: 1 }} />,
    },
    { title: "Time zone", isWide: true, cell: (row) => row.timezone },
    {
      title: "Created",
      isWide: true,
      by: (row) => row.created_at,
      cell: (row) => <Ago at={row.created_at} />,
    },
    {
      title: "Actions",
      cell: (row) => (
        <span className="flex justify-end gap-1">
          <Button
            look="quiet"
            icon={Eye}
            label={`View as ${row.slug ?? row.id}`}
            onClick={() => location.assign(tenantHref(row.slug ?? row.id))}
          />
          <Button
            look="quiet"
            icon={SlidersHorizontal}
            label={`Edit ${row.slug ?? row.id}`}
            onClick={() => setOpen(row)}
          />
          <Button
            look="quiet"
            icon={row.paused_at ? Play : Pause}
            label={`${row.paused_at ? "Resume" : "Pause"} ${row.slug ?? row.id}`}
            onClick={() => void toggle(row)}
          />
        </span>
      ),
    },
  ];
  return (
    <Frame
      title="Tenants"
      lead="Each tenant gets its share of the workers by weight, whatever the load of other tenants."
      actions={
        may("tenants", "write") && (
          <Button icon={Plus} onClick={() => setOpen("new")}>
            Create tenant
          </Button>
        )
      }
    >
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length === 0 ? (
        <Empty title="No tenants yet" code="jobforge tenants create acme">
          Create a tenant here or on the command line:
        </Empty>
      ) : (
        <Panel>
          <Table label="Tenants" columns={columns} rows={query.data.items} idOf={(row) => row.id} />
        </Panel>
      )}
      {open && <Edit tenant={open === "new" ? null : open} onClose={() => setOpen(null)} />}
    </Frame>
  );
}

function countOf(title: string, counts: Map<string | null, number>): Column<TenantInfo> {
  const by = (row: TenantInfo) => counts.get(row.id) ?? 0;
  return {
    title,
    by,
    align: "right",
    cell: (row) => <Count of={by(row)} text={short(by(row))} />,
  };
}

async function toggle(row: TenantInfo): Promise<void> {
  const path = { tenant_id: row.id };
  try {
    if (row.paused_at) await call("post", "/api/v1/tenants/{tenant_id}/resume", { path });
    else await call("post", "/api/v1/tenants/{tenant_id}/pause", { path });
    await client.invalidateQueries({ queryKey: ["tenants"] });
  } catch (error) {
    toastError(error);
  }
}

function Edit({ tenant, onClose }: { tenant: TenantInfo | null; onClose: () => void }) {
  const [values, setValues] = useState({
    slug: tenant?.slug ?? "",
    name: tenant?.name ?? "",
    timezone: tenant?.timezone ?? "",
    weight: String(tenant?.weight ?? 1),
    max_running: text(tenant?.max_running),
    max_pending: text(tenant?.max_pending),
    rate_limit: text(tenant?.rate_limit),
  });
  const field = (name: keyof typeof values, label: string, hint?: string) => (
    <Field label={label} hint={hint}>
      {(id) => (
        <Input
          id={id}
          value={values[name]}
          inputMode={/^(weight|max_|rate)/.test(name) ? "numeric" : "text"}
          onChange={(event) => setValues({ ...values, [name]: event.target.value })}
        />
      )}
    </Field>
  );
  return (
    <Confirm
      title={tenant ? `Edit ${tenant.slug ?? tenant.id}` : "Create tenant"}
      verb={tenant ? "Save" : "Create"}
      isReady={values.slug !== ""}
      onClose={onClose}
      act={async () => {
        const body = {
          slug: values.slug,
          name: values.name || null,
          ...(values.timezone ? { timezone: values.timezone } : {}),
          weight: Number(values.weight) || 1,
          max_running: number(values.max_running),
          max_pending: number(values.max_pending),
          rate_limit: number(values.rate_limit),
        };
        if (tenant)
          await call("patch", "/api/v1/tenants/{tenant_id}", {
            path: { tenant_id: tenant.id },
            body,
          });
        else await call("post", "/api/v1/tenants", { body });
        await client.invalidateQueries({ queryKey: ["tenants"] });
      }}
    >
      <div className="grid gap-4 sm:grid-cols-2">
        {field("slug", "Slug", "The tenant's name in URLs and commands.")}
        {field("name", "Name")}
        {field("timezone", "Time zone", "For example Europe/Berlin.")}
        {field("weight", "Weight", "The share of the workers, relative to other tenants.")}
        {field("max_running", "Maximum running jobs", now(tenant?.max_running))}
        {field("max_pending", "Maximum waiting jobs", now(tenant?.max_pending))}
        {field("rate_limit", "Starts per second", now(tenant?.rate_limit))}
      </div>
    </Confirm>
  );
}

function text(value: number | null | undefined): string {
  return value == null ? "" : String(value);
}

function number(value: string): number | null {
  return value.trim() === "" ? null : Number(value);
}

function now(value: number | null | undefined): string {
  return value == null ? "Current limit: none." : `Current limit: ${value}.`;
}
