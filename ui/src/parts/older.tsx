import { Button } from "@/parts/button";

interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

/** Below a list that has more. */
export function Older({ of }: { of: Pages }) {
  if (!of.hasNextPage) return null;
  return (
    <div className="flex justify-center border-line border-t p-2">
      <Button look="quiet" disabled={of.isFetchingNextPage} onClick={() => void of.fetchNextPage()}>
        Show older ones
      </Button>
    </div>
  );
}
