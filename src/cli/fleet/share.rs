//! Shares of devices or buyers in options: 0 to 1, or `10%`.

/// Maximum sum of shares. Floating-point sums such as 0.7 + 0.2 + 0.1 can slightly exceed 1.
pub(super) const SHARES_MAX: f64 = 1.0 + 1e-9;

/// Parses a share.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let (digits, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let share = digits.trim().parse::<f64>().ok().map(|number| number / whole);
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a share, 0 to 1 or 0% to 100%".to_owned())
}
