//! Ages in kubectl's format.

use jiff::Timestamp;

/// Formats seconds like apimachinery's `duration.HumanDuration`: shorter durations are more precise. A clock
/// difference of one second is tolerated; a larger one gives `<invalid>`.
pub(super) fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let pair = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => pair(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => pair(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => pair(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => pair(seconds / YEAR, "y", seconds % YEAR / DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Age of an RFC 3339 time; `None` for another format.
pub(super) fn since(time: &str, now: Timestamp) -> Option<String> {
    let time: Timestamp = time.parse().ok()?;
    // Fractions are cut toward zero, as in Go: 1.9 s in the future count as one second.
    Some(human(now.duration_since(time).as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_ages_are_coarser() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 600, "3h10m"),
            (8 * 3600, "8h"),
            (48 * 3600 - 1, "47h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (8 * 86400, "8d"),
            (2 * 365 * 86400 - 1, "729d"),
            (2 * 365 * 86400, "2y"),
            (2 * 365 * 86400 + 86400, "2y1d"),
            (8 * 365 * 86400, "8y"),
        ];
        for (seconds, wanted) in cases {
            assert_eq!(human(seconds), wanted, "{seconds}");
        }
    }

    #[test]
    fn accepts_fractional_seconds() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().expect("is a time");
        assert_eq!(since("2026-01-01T00:00:00.500000Z", now).as_deref(), Some("59s"));
        assert_eq!(since("2026-01-01T00:01:01.900000Z", now).as_deref(), Some("0s"));
        assert_eq!(since("yesterday", now), None);
    }
}
