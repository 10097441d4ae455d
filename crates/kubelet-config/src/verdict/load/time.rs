//! Parsing of times as `metav1.Time` does.

use jiff::civil::Date;

/// Reports whether Go's `time.Parse(time.RFC3339, text)` accepts a text: `2006-01-02T15:04:05Z`, with an optional
/// fraction after a point or comma, and `Z` or an offset up to 24:60. The hour may have one digit.
pub(super) fn is_rfc3339(text: &str) -> bool {
    parse(text).is_some()
}

fn parse(text: &str) -> Option<()> {
    let (date, time) = text.split_once('T')?;
    let [year, month, day] = parts(date, '-', [4, 2, 2])?;
    Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    let end = time.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(time.len());
    let (clock, rest) = time.split_at(end);
    let hours = clock.find(':')?;
    let [hour, minute, second] = parts(clock, ':', [hours.clamp(1, 2), 2, 2])?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let zone = match rest.strip_prefix(['.', ',']) {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return None;
            }
            zone
        }
        None => rest,
    };
    if zone == "Z" {
        return Some(());
    }
    let [hours, minutes] = parts(zone.strip_prefix(['+', '-'])?, ':', [2, 2])?;
    (hours <= 24 && minutes <= 60).then_some(())
}

/// Parses numbers with fixed digit counts.
fn parts<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[u16; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split(separator);
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::is_rfc3339;

    #[test]
    fn parses_times_as_go_does() {
        for good in [
            "2006-01-02T15:04:05Z",
            "2006-01-02T5:04:05Z",
            "2024-02-29T00:00:00.123456789+23:59",
            "2006-01-02T15:04:05,5-07:00",
            "0000-01-01T00:00:00Z",
        ] {
            assert!(is_rfc3339(good), "{good}");
        }
        for bad in [
            "",
            "2006-01-02",
            "2006-01-02 15:04:05Z",
            "2006-01-02T15:04:05",
            "2006-01-02t15:04:05z",
            "2006-1-02T15:04:05Z",
            "2023-02-29T00:00:00Z",
            "2006-01-02T24:00:00Z",
            "2006-01-02T15:04:60Z",
            "2006-01-02T15:04:05.Z",
            "2006-01-02T15:04:05+0700",
            "2006-01-02T15:04:05Zx",
            "2006-01-02T:04:05Z",
        ] {
            assert!(!is_rfc3339(bad), "{bad}");
        }
    }
}
