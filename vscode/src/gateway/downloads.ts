// Tells a download that failed from other failures of pip and uv: what helps is another thing.

const NETWORK =
  /name resolution|getaddrinfo|NewConnectionError|ConnectTimeout|Read timed out|Connection (?:refused|reset|aborted)|ProxyError|Network is unreachable|dns error|error sending request|Failed to fetch|Could not fetch|CERTIFICATE_VERIFY_FAILED|SSLError/i;
const NOT_FOUND = /No matching distribution found|Could not find a version|No solution found/i;

/** The sentence for a failed download; undefined if the output is about something else. */
export function downloadFailure(output: string): string | undefined {
  if (!NETWORK.test(output) && !NOT_FOUND.test(output)) return undefined;
  return (
    "The gateway's packages could not be downloaded: check the network and the package index (PyPI), then restart the gateway. " +
    "The extension's package for this platform needs no download"
  );
}
