// Numbers in a writer's words. No DOM in here.

/** A probability: 97 %, 0.4 %. */
export function percent(p) {
  if (p > 0.999) return "over 99.9 %";
  if (p < 0.001) return "under 0.1 %";
  return `${(100 * p).toFixed(p > 0.99 || p < 0.01 ? 1 : 0)} %`;
}

/** The logarithm of odds: 12 × likelier, 3 × less likely. */
export function odds(logOdds) {
  const times = multiple(Math.abs(logOdds));
  if (times === "1") return "as likely";
  return logOdds > 0 ? `${times} × likelier` : `${times} × less likely`;
}

/** e to the power of something, short. */
export function multiple(logarithm) {
  const times = Math.exp(logarithm);
  if (times >= 10_000) return `10${superscript(Math.round(Math.log10(times)))}`;
  return times >= 10 ? Math.round(times).toLocaleString("en") : String(Number(times.toFixed(1)));
}

function superscript(number) {
  return [...String(number)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
}

export function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}

/** How far a value is on its way from low to high: 0 to 1. */
export function between(low, value, high) {
  return Math.min(1, Math.max(0, (value - low) / (high - low)));
}
