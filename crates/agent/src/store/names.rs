//! Names that come from an API server and become names of files.

/// The longest name of a file that is taken: that of a key of a ConfigMap.
const MAX_NAME: usize = 253;

/// Checks that a name is a plain one: it leads to no other folder, and a file can have it.
///
/// # Errors
/// Which name it is and what is wrong with it.
pub fn check_plain(what: &str, name: &str) -> Result<(), String> {
    let problem = if name.is_empty() {
        "is empty"
    } else if name.len() > MAX_NAME {
        return Err(format!("{what} cannot be the name of a file: it is longer than {MAX_NAME} bytes"));
    } else if name == "." || name == ".." {
        "is a way to another folder"
    } else if name.contains(['/', '\\']) {
        "has a slash in it"
    } else if name.chars().any(char::is_control) {
        "has a control character in it"
    } else {
        return Ok(());
    };
    Err(format!("{what} {name:?} cannot be the name of a file: it {problem}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_leads_away_is_refused() {
        for name in ["", ".", "..", "a/b", "/", "/etc", "a\0", "..\\a", "a\n", &"a".repeat(254)] {
            check_plain("the key", name).expect_err(name);
        }
        for name in ["kubelet", "...", "..a", "a b", "4711", "tmp_1", "é", &"a".repeat(253)] {
            check_plain("the key", name).expect(name);
        }
    }

    proptest! {
        #[test]
        fn a_plain_name_stays_in_its_folder(name in ".{0,12}|[./\\\\a\0]{0,6}") {
            if check_plain("the key", &name).is_ok() {
                let path = Path::new("/store/checkpoints").join(&name);
                prop_assert_eq!(path.parent(), Some(Path::new("/store/checkpoints")));
                prop_assert_eq!(path.file_name().and_then(|name| name.to_str()), Some(name.as_str()));
            }
        }
    }
}
