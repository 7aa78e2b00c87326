import { Button } from "@/parts/button";

interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

/** The button that loads the next page of a list. */
export function LoadOlder({ of }: { of: Pages }) {
  if (!of.hasNextPage) return null;
  return (
    <div className="flex justify-center border-line border-t p-2">
      <Button look="quiet" disabled={of.isFetchingNextPage} onClick={() => void of.fetchNextPage()}>
        Load older
      </Button>
    </div>
  );
}
