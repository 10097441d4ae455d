//! Durations in Go's syntax (`time.ParseDuration`), as the kubelet and Kubernetes' own formats write them.

use std::time::Duration;

/// Parses a duration in Go's syntax into nanoseconds: `10m`, `1h30m`, `1.5s`, `-2ms`, `0`. Units are ns, us, ms, s,
/// m, h.
///
/// # Errors
/// A phrase to follow the quoted text in a sentence.
pub fn nanoseconds(text: &str) -> Result<i64, &'static str> {
    const SYNTAX: &str =
        "is not a duration; write a number and a unit (ns, us, ms, s, m, h), such as 30s, 10m or 1h30m";
    const RANGE: &str = "exceeds the limit of a duration, 290 years";
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(SYNTAX);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(SYNTAX);
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(SYNTAX),
        };
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| RANGE)? };
        // Digits beyond the 18th are below a nanosecond in every unit.
        let fraction = fraction.get(..fraction.len().min(18)).unwrap_or_default();
        let scale = fraction.bytes().fold(1_i128, |scale, _| scale * 10);
        let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| RANGE)? };
        total =
            whole.checked_mul(unit).and_then(|whole| total.checked_add(whole + part * unit / scale)).ok_or(RANGE)?;
        rest = after;
    }
    i64::try_from(sign * total).map_err(|_| RANGE)
}

/// Reports whether two texts are notations of one duration.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    nanoseconds(a).is_ok_and(|a| nanoseconds(b) == Ok(a))
}

/// Parses a duration in Go's syntax that is not negative.
///
/// # Errors
/// A phrase to follow the quoted text in a sentence.
pub fn parse(text: &str) -> Result<Duration, &'static str> {
    u64::try_from(nanoseconds(text)?).map(Duration::from_nanos).map_err(|_| "is negative")
}

/// Parses a duration of a command line: as [`parse`] does, or a whole number of seconds, as kubectl's
/// `--request-timeout` does. Files always name the unit.
///
/// # Errors
/// A phrase to follow the quoted text in a sentence.
pub fn parse_argument(text: &str) -> Result<Duration, &'static str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { parse(&format!("{text}s")) } else { parse(text) }
}

/// Formats a duration without units that are zero: `1h30m`, `1m30s`, `0.5s`, `0s`. [`parse`] returns the same
/// duration.
#[must_use]
pub fn format(duration: Duration) -> String {
    let whole = duration.as_secs();
    let (hours, minutes, seconds, nanos) = (whole / 3600, whole / 60 % 60, whole % 60, duration.subsec_nanos());
    let mut text = String::new();
    for (number, unit) in [(hours, 'h'), (minutes, 'm')] {
        if number > 0 {
            text.push_str(&format!("{number}{unit}"));
        }
    }
    if nanos > 0 {
        let fraction = format!("{nanos:09}");
        text.push_str(&format!("{seconds}.{}s", fraction.trim_end_matches('0')));
    } else if seconds > 0 || text.is_empty() {
        text.push_str(&format!("{seconds}s"));
    }
    text
}

/// Formats nanoseconds as Go does (`time.Duration.String`): `4h0m0s`, `1m30s`, `1.5s`, `100ms`, `0s`.
#[must_use]
pub fn go(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    if size == 0 {
        return "0s".to_owned();
    }
    for (unit, name) in [(1_u64, "ns"), (1_000, "µs"), (1_000_000, "ms")] {
        if size < unit.saturating_mul(1_000) {
            return format!("{sign}{}{name}", decimal(size, unit));
        }
    }
    const SECOND: u64 = 1_000_000_000;
    let (hours, minutes) = (size / (3_600 * SECOND), size / (60 * SECOND) % 60);
    let seconds = decimal(size % (60 * SECOND), SECOND);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// Formats `size / unit` without rounding, for a unit that is a power of ten.
fn decimal(size: u64, unit: u64) -> String {
    let (whole, rest) = (size / unit, size % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.to_string().len() - 1;
    format!("{whole}.{}", format!("{rest:0width$}").trim_end_matches('0'))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_formatted_durations() {
        for (nanos, text) in [
            (0, "0s"),
            (30_000_000_000, "30s"),
            (90_000_000_000, "1m30s"),
            (600_000_000_000, "10m"),
            (3_605_000_000_000, "1h5s"),
            (1_500_000_000, "1.5s"),
            (60_000_000_001, "1m0.000000001s"),
        ] {
            assert_eq!(format(Duration::from_nanos(nanos)), text);
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)));
        }
    }

    #[test]
    fn reads_argument_without_unit_as_seconds() {
        for (text, seconds) in [("30", 30), ("0", 0), ("007", 7), ("30s", 30), ("1h", 3600)] {
            assert_eq!(parse_argument(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "1.5", "-30", "+5", "30 ", "1e3", "\u{663}"] {
            assert!(parse_argument(bad).is_err(), "{bad}");
        }
        assert!(parse_argument(&"9".repeat(40)).is_err());
        assert!(parse("30").is_err(), "a file names the unit");
    }

    #[test]
    fn formats_durations_as_go_does() {
        for text in ["0s", "1ns", "1.5µs", "100ms", "1s", "1.5s", "1m0s", "1m30s", "4h0m0s", "2540400h10m10s", "-2ms"]
        {
            assert_eq!(go(nanoseconds(text).expect("a duration")), text);
        }
        assert_eq!(go(nanoseconds("90m").expect("a duration")), "1h30m0s");
    }

    #[test]
    fn parses_durations_as_go_does() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("30s", 30_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("+5ms", 5_000_000),
            ("-2m", -120_000_000_000),
            ("100us1ns", 100_001),
            ("1µs", 1_000),
            ("0.0000000001s", 0),
        ] {
            assert_eq!(nanoseconds(text), Ok(nanos), "{text}");
        }
        for bad in ["", "5", "1d", "1 s", "s", ".s", "-", "1h 30m", "10M", "yes", "1e3s", "--1s", "9999999999999h"] {
            assert!(nanoseconds(bad).is_err(), "{bad}");
        }
        assert_eq!(parse("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(parse("-1s"), Err("is negative"));
        assert!(nanoseconds(&"9".repeat(100)).is_err());
        assert!(nanoseconds(&format!("{}h", "9".repeat(30))).is_err());
    }
}
