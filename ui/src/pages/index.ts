/**
 * The pages, in the order of the navigation. Each line adds a page, whose module exports `Page`.
 *
 * `area` is the area that the user must be allowed to read. Pages without it are open to all
 * signed-in users.
 */

import {
  Activity,
  AlarmClock,
  Boxes,
  Building2,
  CalendarClock,
  CircleX,
  Cpu,
  Database,
  Gauge,
  Inbox,
  Layers,
  LayoutDashboard,
  ListChecks,
  type LucideIcon,
  Radio,
  ScrollText,
  Settings,
  Webhook,
  Workflow,
} from "lucide-react";
import type { FunctionComponent } from "react";

export interface PageEntry {
  path: string;
  label: string;
  icon: LucideIcon;
  group: "" | "Build" | "Operate" | "Installation";
  load: () => Promise<{ Page: FunctionComponent }>;
  area?:
    | "jobs"
    | "queues"
    | "definitions"
    | "failures"
    | "operations"
    | "keys"
    | "audit"
    | "workflows"
    | "triggers"
    | "events"
    | "webhooks"
    | "database";
  /** Keyboard shortcut of two keys in sequence. */
  keys?: string;
}

export const tenantPages: PageEntry[] = [
  {
    path: "/",
    label: "Overview",
    icon: LayoutDashboard,
    group: "",
    load: () => import("@/pages/overview"),
    keys: "g o",
  },
  {
    path: "/jobs",
    label: "Jobs",
    icon: Inbox,
    group: "",
    load: () => import("@/pages/jobs"),
    keys: "g j",
  },
  {
    path: "/workflows",
    label: "Workflows",
    icon: Workflow,
    group: "",
    load: () => import("@/pages/workflows"),
    area: "workflows",
    keys: "g w",
  },
  {
    path: "/failures",
    label: "Failures",
    icon: CircleX,
    group: "",
    load: () => import("@/pages/failures"),
    area: "failures",
    keys: "g f",
  },
  {
    path: "/definitions",
    label: "Definitions",
    icon: Boxes,
    group: "Build",
    load: () => import("@/pages/definitions"),
    area: "definitions",
    keys: "g d",
  },
  {
    path: "/triggers",
    label: "Triggers",
    icon: AlarmClock,
    group: "Build",
    load: () => import("@/pages/triggers"),
    area: "triggers",
    keys: "g t",
  },
  {
    path: "/events",
    label: "Events",
    icon: Radio,
    group: "Build",
    load: () => import("@/pages/events"),
    area: "events",
    keys: "g e",
  },
  {
    path: "/webhooks",
    label: "Webhooks",
    icon: Webhook,
    group: "Build",
    load: () => import("@/pages/webhooks"),
    area: "webhooks",
    keys: "g h",
  },
  {
    path: "/queues",
    label: "Queues",
    icon: Layers,
    group: "Operate",
    load: () => import("@/pages/queues"),
    area: "queues",
    keys: "g q",
  },
  {
    path: "/operations",
    label: "Operations",
    icon: ListChecks,
    group: "Operate",
    load: () => import("@/pages/operations"),
    area: "operations",
  },
  {
    path: "/settings",
    label: "Settings",
    icon: Settings,
    group: "Operate",
    load: () => import("@/pages/settings"),
    keys: "g s",
  },
];

export const adminPages: PageEntry[] = [
  {
    path: "/admin/fleet",
    label: "Fleet",
    icon: Activity,
    group: "Installation",
    load: () => import("@/pages/admin/fleet"),
  },
  {
    path: "/admin/tenants",
    label: "Tenants",
    icon: Building2,
    group: "Installation",
    load: () => import("@/pages/admin/tenants"),
  },
  {
    path: "/admin/workers",
    label: "Workers",
    icon: Cpu,
    group: "Installation",
    load: () => import("@/pages/admin/workers"),
  },
  {
    path: "/admin/queues",
    label: "Queues & limits",
    icon: Gauge,
    group: "Installation",
    load: () => import("@/pages/queues"),
  },
  {
    path: "/admin/database",
    label: "Database",
    icon: Database,
    group: "Installation",
    load: () => import("@/pages/admin/database"),
    area: "database",
  },
  {
    path: "/admin/scheduler",
    label: "Scheduler",
    icon: CalendarClock,
    group: "Installation",
    load: () => import("@/pages/admin/scheduler"),
    area: "database",
  },
  {
    path: "/admin/audit",
    label: "Audit",
    icon: ScrollText,
    group: "Installation",
    load: () => import("@/pages/admin/audit"),
  },
];

/** Pages without an entry in the navigation. */
export const innerPages: { path: string; load: PageEntry["load"] }[] = [
  { path: "/jobs/$id", load: () => import("@/pages/job") },
  { path: "/definitions/$key", load: () => import("@/pages/definition") },
  { path: "/workflows/$id", load: () => import("@/pages/workflow") },
  { path: "/batches/$id", load: () => import("@/pages/batch") },
  { path: "/triggers/new", load: () => import("@/pages/trigger-new") },
  { path: "/triggers/$id", load: () => import("@/pages/trigger") },
  { path: "/events/$id", load: () => import("@/pages/event") },
  { path: "/webhooks/$id", load: () => import("@/pages/webhook") },
];
