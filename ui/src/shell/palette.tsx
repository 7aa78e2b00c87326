/**
 * The command palette: opens pages, definitions, states, a job by its ID, or a tenant, and runs
 * commands.
 */

import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Command } from "cmdk";
import { Boxes, Building2, Download, Hash, type LucideIcon, Pause, SunMoon } from "lucide-react";
import { useState } from "react";
import { definitions, tenants } from "@/api/queries";
import { tenant, tenantHref } from "@/config";
import { LOOKS, STATES } from "@/jobs/states";
import { togglePaused } from "@/live/live";
import { adminPages, tenantPages } from "@/pages";
import { Modal } from "@/parts/dialog";
import { saveCsv, saveJson, shownList } from "@/parts/export";
import { useSession } from "@/session";
import { isDark, setTheme } from "@/theme";

const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/i;

export function Palette({ onClose }: { onClose: () => void }) {
  const { isSuper, may } = useSession();
  const isTenant = tenant !== null || !isSuper;
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const list = shownList.use();
  const known = useQuery({ ...definitions(), enabled: isTenant && may("definitions", "read") });
  const others = useQuery({ ...tenants(), enabled: isSuper });

  function go(to: string, search: Record<string, string> = {}) {
    onClose();
    void navigate({ to, search });
  }
  function run(act: () => void) {
    onClose();
    act();
  }

  return (
    <Modal
      label="Search pages and actions"
      onClose={onClose}
      className="mt-[12vh] w-[calc(100%-2rem)] max-w-xl rounded-xl border border-line bg-surface p-0 shadow-float"
    >
      <Command label="Search pages and actions" loop>
        <Command.Input
          value={text}
          onValueChange={setText}
          placeholder="Search pages and actions, or enter a job ID"
          className="h-12 w-full border-line border-b bg-transparent px-4 text-base outline-none"
        />
        <Command.List className="max-h-[50vh] overflow-y-auto p-2">
          <Command.Empty className="p-4 text-muted">No results.</Command.Empty>
          {isTenant && UUID.test(text.trim()) && (
            <Row icon={Hash} text={`Job ${text.trim()}`} act={() => go(`/jobs/${text.trim()}`)} />
          )}
          <Group title="Pages">
            {(isTenant ? tenantPages : adminPages)
              .filter((page) => page.area === undefined || may(page.area, "read"))
              .map((page) => (
                <Row key={page.path} icon={page.icon} text={page.label} act={() => go(page.path)} />
              ))}
          </Group>
          {isTenant && (
            <Group title="Jobs">
              {STATES.map((state) => (
                <Row
                  key={state}
                  icon={LOOKS[state]?.icon ?? Hash}
                  text={`${LOOKS[state]?.label} jobs`}
                  act={() => go("/jobs", { state })}
                />
              ))}
            </Group>
          )}
          {isTenant && (
            <Group title="Definitions">
              {known.data?.items.map((each) => (
                <Row
                  key={each.key}
                  icon={Boxes}
                  text={each.key}
                  act={() => go(`/definitions/${each.key}`)}
                />
              ))}
            </Group>
          )}
          {isSuper && (
            <Group title="Tenants">
              {others.data?.items.map((each) => (
                <Row
                  key={each.id}
                  icon={Building2}
                  text={`View as ${each.slug ?? each.id}`}
                  act={() => location.assign(tenantHref(each.slug ?? each.id))}
                />
              ))}
            </Group>
          )}
          <Group title="Actions">
            {list && list.rows.length > 0 && (
              <>
                <Row
                  icon={Download}
                  text={`Export ${list.name} as CSV`}
                  act={() => run(() => saveCsv(list.name, list.rows))}
                />
                <Row
                  icon={Download}
                  text={`Export ${list.name} as JSON`}
                  act={() => run(() => saveJson(list.name, list.rows))}
                />
              </>
            )}
            <Row icon={Pause} text="Pause or resume live updates" act={() => run(togglePaused)} />
            <Row
              icon={SunMoon}
              text="Switch between light and dark theme"
              act={() => run(() => setTheme(isDark() ? "light" : "dark"))}
            />
          </Group>
        </Command.List>
      </Command>
    </Modal>
  );
}

function Group({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <Command.Group
      heading={title}
      className="[&_[cmdk-group-heading]]:px-2 [&_[cmdk-group-heading]]:py-1 [&_[cmdk-group-heading]]:text-faint [&_[cmdk-group-heading]]:text-xs"
    >
      {children}
    </Command.Group>
  );
}

function Row({ icon: Icon, text, act }: { icon: LucideIcon; text: string; act: () => void }) {
  return (
    <Command.Item
      value={text}
      onSelect={act}
      className="flex h-9 cursor-pointer items-center gap-2.5 rounded-md px-2 data-[selected=true]:bg-hover"
    >
      <Icon size={15} aria-hidden className="shrink-0 text-faint" />
      <span className="truncate">{text}</span>
    </Command.Item>
  );
}
