// The top of a pane with a table: a button that adds a row, Refresh, what was done last, and what went wrong.

interface Props {
  /** The words of the button that adds a row; it is there for those who may. */
  add: string;
  edits: boolean;
  onAdd: () => void;
  /** The words of a second such button. */
  addOther?: string;
  onAddOther?: () => void;
  onRefresh: () => void;
  status: string;
  error: string;
  reading: boolean;
}

export function PaneTools({ add, edits, onAdd, addOther, onAddOther, onRefresh, status, error, reading }: Props) {
  return (
    <>
      <div class="admin-tools">
        {edits && (
          <button type="button" class="main" onClick={onAdd}>
            {add}
          </button>
        )}
        {edits && addOther && (
          <button type="button" onClick={onAddOther}>
            {addOther}
          </button>
        )}
        <button type="button" onClick={onRefresh}>
          Refresh
        </button>
        <span role="status" class="soft">
          {status}
        </span>
      </div>
      {error && (
        <p class="admin-error" role="alert">
          {error}
        </p>
      )}
      {reading && !error && <p class="soft">Reading…</p>}
    </>
  );
}
