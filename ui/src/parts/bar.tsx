/** A progress bar. */
export function Bar({ share, isBad = false }: { share: number; isBad?: boolean }) {
  return (
    <div className="h-1.5 overflow-hidden rounded-full bg-raised">
      <div
        className={`h-full rounded-full transition-[width] ${isBad ? "bg-bad" : "bg-accent"}`}
        style={{ width: `${Math.round(share * 100)}%` }}
      />
    </div>
  );
}
