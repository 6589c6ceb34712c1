/** Callbacks of each signal. */
const registered = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `callback` when the signal is aborted, or immediately if it already is. Returns a function
 * that removes it.
 *
 * Each signal has one listener, however many calls share it: adding a listener takes time in
 * proportion to their number, and Node.js warns above 10.
 */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) return () => undefined;
  if (signal.aborted) {
    callback();
    return () => undefined;
  }
  const callbacks = registered.get(signal) ?? register(signal);
  callbacks.add(callback);
  return () => {
    callbacks.delete(callback);
  };
}

function register(signal: AbortSignal): Set<() => void> {
  const callbacks = new Set<() => void>();
  registered.set(signal, callbacks);
  const run = (): void => {
    for (const callback of [...callbacks]) callback();
    callbacks.clear();
  };
  signal.addEventListener("abort", run, { once: true });
  return callbacks;
}
