import { CircleHelp, LogOut, Monitor, Moon, Sun } from "lucide-react";
import { Button } from "@/parts/button";
import { toastError } from "@/parts/toasts";
import { signOut, useSession } from "@/session";
import { LivePill } from "@/shell/live-pill";
import { theme as chosen, setTheme, type Theme } from "@/theme";

const ROLES: Record<string, string> = {
  viewer: "Viewer",
  tenant_admin: "Tenant admin",
  super_admin: "Super admin",
  worker: "Worker",
};
const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const ICONS = { system: Monitor, light: Sun, dark: Moon };

export function Account({ onHelp }: { onHelp: () => void }) {
  const { actor, role } = useSession();
  const theme = chosen.use();
  return (
    <div className="flex flex-col gap-2 border-line border-t p-3">
      <div className="flex items-center justify-between">
        <LivePill />
        <span className="flex">
          <Button
            look="quiet"
            icon={ICONS[theme]}
            label={`Theme: ${theme}. Switch to ${NEXT[theme]}`}
            onClick={() => setTheme(NEXT[theme])}
          />
          <Button look="quiet" icon={CircleHelp} label="Keyboard shortcuts" onClick={onHelp} />
        </span>
      </div>
      <div className="flex items-center justify-between gap-2">
        <div className="min-w-0 pl-1">
          <div className="font-medium text-xs leading-4">{ROLES[role]}</div>
          <div className="truncate font-mono text-faint text-xs leading-4" title={actor}>
            {actor}
          </div>
        </div>
        <Button
          look="quiet"
          icon={LogOut}
          label="Sign out"
          onClick={() => void signOut().catch(toastError)}
        />
      </div>
    </div>
  );
}
