export function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true" className="shrink-0">
      <rect width="32" height="32" rx="7" className="fill-accent" />
      <path d="M9 10h14v4h-5v8h-4v-8H9z" className="fill-on-accent" />
      <path d="M9 18h3v4H9z" className="fill-on-accent opacity-50" />
    </svg>
  );
}
