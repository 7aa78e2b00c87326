/** One endpoint: its deliveries, their responses, and the rotation of its secret. */

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import {
  ChevronDown,
  ChevronRight,
  Pencil,
  RefreshCw,
  RotateCcw,
  Send,
  Trash2,
} from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { client, deliveries, webhook as webhookQuery } from "@/api/queries";
import type { Delivery, Webhook } from "@/api/schema";
import { WebhookState } from "@/pages/webhooks";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Id } from "@/parts/copy";
import { Detail } from "@/parts/detail";
import { Facts } from "@/parts/fact-list";
import { Empty, Failure, Notice, Skeleton, Snippet } from "@/parts/feedback";
import { Field, Input } from "@/parts/form";
import { LoadOlder } from "@/parts/load-older";
import { Panel } from "@/parts/page";
import { Switch } from "@/parts/switch";
import { Tabs } from "@/parts/tabs";
import { Ago } from "@/parts/time";
import { toast, toastError } from "@/parts/toasts";
import { useSession } from "@/session";
import { Outcome } from "@/triggers/outcome";
import { WebhookForm } from "@/webhooks/form";
import { SecretShown } from "@/webhooks/secret";
import { VERIFICATION } from "@/webhooks/snippets";

export function Page() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery(webhookQuery(id));
  if (query.isPending) return <Skeleton rows={10} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <View webhook={query.data} />;
}

function refresh(id: string): void {
  void client.invalidateQueries({ queryKey: ["webhook", id] });
  void client.invalidateQueries({ queryKey: ["webhooks"] });
  void client.invalidateQueries({ queryKey: ["deliveries", id] });
}

function View({ webhook }: { webhook: Webhook }) {
  const { may } = useSession();
  const navigate = useNavigate();
  const [open, setOpen] = useState<"edit" | "rotate" | "delete" | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const canAct = may("webhooks", "write");
  const path = { endpoint_id: webhook.id };

  async function attempt(act: () => Promise<unknown>, words?: string) {
    try {
      await act();
      if (words) toast(words);
    } catch (error) {
      toastError(error);
    }
    refresh(webhook.id);
  }

  return (
    <Detail
      back={{ to: "/webhooks", label: "Webhooks" }}
      title={webhook.url}
      standing={
        <span className="flex items-center gap-3">
          <WebhookState row={webhook} />
          {canAct && (
            <Switch
              isOn={webhook.enabled}
              label={webhook.enabled ? "Disable webhook" : "Enable webhook"}
              onChange={(enabled) =>
                void attempt(() =>
                  call("patch", "/api/v1/webhooks/{endpoint_id}", { path, body: { enabled } }),
                )
              }
            />
          )}
        </span>
      }
      lead={webhook.description}
      actions={
        canAct && (
          <>
            <Button
              icon={Send}
              isOnce
              onClick={() =>
                void attempt(
                  () => call("post", "/api/v1/webhooks/{endpoint_id}/test", { path }),
                  "Test message queued.",
                )
              }
            >
              Send test
            </Button>
            <Button icon={RefreshCw} onClick={() => setOpen("rotate")}>
              Rotate secret
            </Button>
            <Button icon={Pencil} onClick={() => setOpen("edit")}>
              Edit
            </Button>
            <Button look="danger" icon={Trash2} onClick={() => setOpen("delete")}>
              Delete
            </Button>
          </>
        )
      }
    >
      {webhook.disabled_reason && (
        <Notice isBad>
          Disabled <Ago at={webhook.disabled_at} />: {webhook.disabled_reason}
        </Notice>
      )}
      {webhook.enabled && webhook.failing_since && (
        <Notice>
          Deliveries are failing. First failure: <Ago at={webhook.failing_since} />.
        </Notice>
      )}
      <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-4 xl:grid-cols-[minmax(0,1fr)_420px]">
        <Deliveries id={webhook.id} canAct={canAct} />
        <div className="flex min-w-0 flex-col gap-4">
          <Panel title="Settings">
            <Facts
              facts={[
                ["Notifies on", webhook.events.join(", ")],
                ["Definitions", webhook.definitions?.join(", ") ?? "all jobs"],
                ["Created", <Ago key="created" at={webhook.created_at} />],
                ["Created by", webhook.created_by],
                [
                  "Old secret",
                  webhook.previous_secret_until ? (
                    <span key="until">
                      also signs messages, expires <Ago at={webhook.previous_secret_until} />
                    </span>
                  ) : (
                    "none"
                  ),
                ],
              ]}
            />
          </Panel>
          <Verification />
        </div>
      </div>
      {open === "edit" && <WebhookForm webhook={webhook} onClose={() => setOpen(null)} />}
      {open === "rotate" && (
        <Rotate
          id={webhook.id}
          onMade={(text) => {
            setSecret(text);
            refresh(webhook.id);
          }}
          onClose={() => setOpen(null)}
        />
      )}
      {open === "delete" && (
        <Confirm
          title="Delete this webhook?"
          verb="Delete"
          isDangerous
          onClose={() => setOpen(null)}
          act={async () => {
            await call("delete", "/api/v1/webhooks/{endpoint_id}", { path });
            await client.invalidateQueries({ queryKey: ["webhooks"] });
            void navigate({ to: "/webhooks" });
          }}
        >
          <p className="text-muted">Pending messages to this webhook will not be sent.</p>
        </Confirm>
      )}
      {secret && <SecretShown text={secret} onClose={() => setSecret(null)} />}
    </Detail>
  );
}

interface RotateProps {
  id: string;
  onMade: (secret: string) => void;
  onClose: () => void;
}

function Rotate({ id, onMade, onClose }: RotateProps) {
  const [hours, setHours] = useState("24");
  return (
    <Confirm
      title="Rotate secret"
      verb="Create secret"
      onClose={onClose}
      act={async () => {
        const made = await call("post", "/api/v1/webhooks/{endpoint_id}/rotate", {
          path: { endpoint_id: id },
          body: { overlap_s: Number(hours || 0) * 3600 },
        });
        onMade(made.secret);
      }}
    >
      <Field
        label="Old secret stays valid for (hours)"
        hint="In this time both secrets sign each message, so that you can update the receiver. 0 ends the old secret immediately."
      >
        {(field) => (
          <Input
            id={field}
            type="number"
            min={0}
            max={720}
            value={hours}
            onChange={(event) => setHours(event.target.value)}
          />
        )}
      </Field>
    </Confirm>
  );
}

type Filter = "pending" | "delivered" | "failed" | undefined;

function Deliveries({ id, canAct }: { id: string; canAct: boolean }) {
  const { state } = useSearch({ strict: false }) as { state?: Filter };
  const query = useInfiniteQuery(deliveries(id, state));
  const rows = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Panel title="Messages">
      <div className="px-2">
        <Tabs
          label="State of messages"
          name="state"
          active={state ?? "all"}
          tabs={[
            ["all", "All"],
            ["pending", "Pending"],
            ["delivered", "Delivered"],
            ["failed", "Failed"],
          ]}
        />
      </div>
      {query.isPending ? (
        <Skeleton rows={4} />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <Empty title={state ? "No matching messages" : "No messages yet"}>
          {!state && "Send a test, or wait until a matching job reports an event."}
        </Empty>
      ) : (
        <ul>
          {rows.map((row) => (
            <Message key={row.id} endpoint={id} row={row} canAct={canAct} />
          ))}
        </ul>
      )}
      <LoadOlder of={query} />
    </Panel>
  );
}

function Message({ endpoint, row, canAct }: { endpoint: string; row: Delivery; canAct: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const Icon = isOpen ? ChevronDown : ChevronRight;

  async function again() {
    try {
      await call("post", "/api/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/redeliver", {
        path: { endpoint_id: endpoint, delivery_id: row.id },
      });
      toast("Message queued.");
    } catch (error) {
      toastError(error);
    }
    refresh(endpoint);
  }

  return (
    <li className="border-line border-b last:border-0">
      <div className="flex items-center gap-1 pr-2 hover:bg-hover">
        <button
          type="button"
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
          className="flex h-10 min-w-0 flex-1 items-center gap-3 pl-3 text-left"
        >
          <Icon size={14} className="shrink-0 text-faint" aria-hidden />
          <span className="w-24 shrink-0">
            <Outcome name={row.state} />
          </span>
          <span className="min-w-0 flex-1 truncate font-medium">{row.event}</span>
          <span className="num shrink-0 text-muted">{row.status ?? ""}</span>
          <span className="hidden w-16 shrink-0 text-right text-faint text-xs sm:block">
            <Ago at={row.created_at} />
          </span>
        </button>
        {canAct && (
          <Button
            look="quiet"
            icon={RotateCcw}
            label={row.state === "pending" ? "Send now" : "Send again"}
            isOnce
            onClick={() => void again()}
          />
        )}
      </div>
      {isOpen && (
        <div className="border-line border-t bg-bg">
          <Facts
            facts={[
              ["Job", <JobLink key="of" id={row.subject_id} none="none (test message)" />],
              ["Delivery job", <JobLink key="by" id={row.job_id} none="–" />],
              ["Attempts", row.attempts],
              ["Last attempt", <Ago key="last" at={row.attempted_at} />],
              ...(row.next_attempt_at
                ? [
                    ["Next attempt", <Ago key="next" at={row.next_attempt_at} />] as [
                      string,
                      React.ReactNode,
                    ],
                  ]
                : []),
              ...(row.error ? [["Error", row.error] as [string, string]] : []),
            ]}
          />
          {row.response && (
            <div className="px-4 pb-3">
              <p className="text-faint">Response</p>
              <Snippet text={row.response} />
            </div>
          )}
        </div>
      )}
    </li>
  );
}

function JobLink({ id, none }: { id: string | null; none: string }) {
  if (id === null) return <>{none}</>;
  return (
    <Link to="/jobs/$id" params={{ id }} className="text-accent hover:underline">
      <Id id={id} />
    </Link>
  );
}

function Verification() {
  const [at, setAt] = useState(0);
  return (
    <Panel
      title="Verify a webhook signature"
      actions={VERIFICATION.map(({ label }, index) => (
        <Button
          key={label}
          look="quiet"
          aria-pressed={index === at}
          className={index === at ? "!bg-hover !text-text" : ""}
          onClick={() => setAt(index)}
        >
          {label}
        </Button>
      ))}
    >
      <div className="px-4 pt-1 pb-4">
        <Snippet text={VERIFICATION[at]?.text ?? ""} />
      </div>
    </Panel>
  );
}
