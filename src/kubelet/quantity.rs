//! Quantities (apimachinery `resource.Quantity`): the syntax alone.

/// The suffixes of a quantity, but for an exponent.
const SUFFIXES: [&str; 16] = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Whether a text is a quantity: a signed decimal with a suffix (`n u m k M G T P E`, `Ki` to `Ei`) or an exponent.
#[must_use]
pub fn is_quantity(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let good = number.bytes().any(|b| b.is_ascii_digit()) && number.bytes().filter(|b| *b == b'.').count() <= 1;
    let exponent = || {
        suffix.strip_prefix(['e', 'E']).is_some_and(|digits| {
            let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        })
    };
    good && (SUFFIXES.contains(&suffix) || exponent())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_kubernetes_reads_them() {
        for good in ["0", "1Gi", "1.5Ei", ".5", "5.", "-1m", "+1E", "1e3", "1E-3", "100Mi", "1k"] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "Gi", "GiB", "1GiB", "1 Gi", "1K", "1e", ".", "-", "1.2.3", "1mi", "ten"] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }
}
