//! Explanations of scalars that the kubelet and other YAML readers read differently.
//!
//! The author meant one of the values, and a wrong guess would reach every node of a pool.

use go_yaml::{Ambiguity, Reading, Scalar};

use super::canonical_text;

/// Returns one sentence with the possible meanings of a scalar, and the unambiguous notations. `None` if all readers
/// agree.
pub(super) fn of(scalar: &Scalar) -> Option<(String, String)> {
    let text = &scalar.text;
    let (other, reader) = match scalar.ambiguity()? {
        Ambiguity::NotFinite => {
            let problem = format!("`{text}` is not a finite number, and no field of the kubelet accepts it");
            return Some((problem, format!("write a number, or {} for the text", canonical_text(text))));
        }
        Ambiguity::Yaml12(other) => (other, "YAML 1.2 readers"),
        Ambiguity::Yaml11(text) => (Reading::Text(text), "strict YAML 1.1 readers"),
    };
    let kubelet = scalar.read();
    let mut notations: Vec<String> = [kubelet, other]
        .iter()
        .filter(|reading| !matches!(reading, Reading::Null | Reading::Text(_)))
        .map(Reading::to_string)
        .collect();
    notations.dedup();
    Some((
        format!("`{text}` is {} to the kubelet and {} to {reader}", kubelet.describe(), other.describe()),
        format!("write {}, or {} for the text", notations.join(" or "), canonical_text(text)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposes_notations_with_one_meaning() {
        for (text, fix) in [
            ("yes", "write true, or \"yes\" for the text"),
            ("Off", "write false, or \"Off\" for the text"),
            ("y", "write true, or \"y\" for the text"),
            ("N", "write false, or \"N\" for the text"),
            ("0777", "write 511 or 777, or \"0777\" for the text"),
            ("-012", "write -10 or -12, or \"-012\" for the text"),
            ("08", "write 8, or \"08\" for the text"),
            ("0o17", "write 15, or \"0o17\" for the text"),
            ("0b101", "write 5, or \"0b101\" for the text"),
            ("0X10", "write 16, or \"0X10\" for the text"),
            ("-0x10", "write -16, or \"-0x10\" for the text"),
            ("1_000", "write 1000, or \"1_000\" for the text"),
            ("1_0.5", "write 10.5, or \"1_0.5\" for the text"),
            ("1e999", "write a number, or \"1e999\" for the text"),
            (".inf", "write a number, or \".inf\" for the text"),
            (".NaN", "write a number, or \".NaN\" for the text"),
        ] {
            assert_eq!(of(&Scalar::plain(text)).map(|(_, fix)| fix).as_deref(), Some(fix), "{text}");
        }
        assert_eq!(of(&Scalar::plain("1:30")), None);
        assert_eq!(of(&Scalar::quoted("yes")), None);
    }

    #[test]
    fn names_both_readers() {
        assert_eq!(
            of(&Scalar::plain("yes")).expect("yes is ambiguous").0,
            "`yes` is the boolean true to the kubelet and the text \"yes\" to YAML 1.2 readers"
        );
    }
}
