// Values that outlive a reload of this tab: in the browser's database, under a name of the tab, for a day at most.

const DATABASE = "penstock-inspector";
const TABLE = "tabs";
const TAB = "penstock-tab";
const KEEP_HOURS = 24;

interface Stored {
  key: string;
  time: number;
  value: unknown;
}

function tabName(): string {
  const kept = sessionStorage.getItem(TAB);
  if (kept) return kept;
  const made = crypto.getRandomValues(new Uint32Array(2)).join("-");
  sessionStorage.setItem(TAB, made);
  return made;
}

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open(DATABASE, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(TABLE, { keyPath: "key" });
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}

async function run<T>(mode: IDBTransactionMode, work: (table: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const database = await open();
  try {
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(TABLE, mode);
      const asked = work(transaction.objectStore(TABLE));
      transaction.oncomplete = () => resolve(asked.result);
      transaction.onerror = () => reject(transaction.error);
      transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

/** The mark of a value that is to be forgotten, also if the page is left before the database has deleted it. */
const forgotten = (name: string): string => `${TAB}-forgotten ${name}`;

/** Keeps a value of this tab. Where there is no room or no database, it is kept in memory only. */
export async function keepValue(name: string, value: unknown): Promise<boolean> {
  try {
    sessionStorage.removeItem(forgotten(name));
    await run("readwrite", (table) => table.put({ key: `${tabName()} ${name}`, time: Date.now(), value }));
    return true;
  } catch {
    return false;
  }
}

export async function readValue<T>(name: string): Promise<T | null> {
  try {
    if (sessionStorage.getItem(forgotten(name))) return null;
    const found = await run<Stored | undefined>("readonly", (table) => table.get(`${tabName()} ${name}`));
    return (found?.value as T | undefined) ?? null;
  } catch {
    return null;
  }
}

export async function forgetValue(name: string): Promise<void> {
  try {
    sessionStorage.setItem(forgotten(name), "yes");
    await run("readwrite", (table) => table.delete(`${tabName()} ${name}`));
  } catch {
    // nothing was kept
  }
}

/** Deletes what tabs have left that were closed long ago. */
export async function dropOldValues(): Promise<void> {
  try {
    const all = await run<Stored[]>("readonly", (table) => table.getAll());
    const old = all.filter(({ time }) => Date.now() - time > KEEP_HOURS * 3_600_000);
    for (const { key } of old) await run("readwrite", (table) => table.delete(key));
  } catch {
    // nothing was kept
  }
}
