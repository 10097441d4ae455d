//! Check of names of ConfigMaps before use as file names.

/// Maximum length of a file name, in bytes: that of a ConfigMap key.
const MAX_NAME: usize = 253;

/// Checks that a name is safe as a file name and stays within its folder.
///
/// # Errors
/// The problem, for an error message.
pub(crate) fn check_plain(what: &str, name: &str) -> Result<(), String> {
    let problem = if name.is_empty() {
        "is empty"
    } else if name.len() > MAX_NAME {
        return Err(format!("{what} cannot be a file name: it is longer than {MAX_NAME} bytes"));
    } else if name == "." || name == ".." {
        "refers to another folder"
    } else if name.contains(['/', '\\']) {
        "contains a slash"
    } else if name.chars().any(char::is_control) {
        "contains a control character"
    } else {
        return Ok(());
    };
    Err(format!("{what} {name:?} cannot be a file name: it {problem}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rejects_unsafe_names() {
        for name in ["", ".", "..", "a/b", "/", "/etc", "a\0", "..\\a", "a\n", &"a".repeat(254)] {
            check_plain("the key", name).expect_err(name);
        }
        for name in ["kubelet", "...", "..a", "a b", "4711", "tmp_1", "é", &"a".repeat(253)] {
            check_plain("the key", name).expect(name);
        }
    }

    proptest! {
        #[test]
        fn plain_name_stays_in_folder(name in ".{0,12}|[./\\\\a\0]{0,6}") {
            if check_plain("the key", &name).is_ok() {
                let path = Path::new("/store/checkpoints").join(&name);
                prop_assert_eq!(path.parent(), Some(Path::new("/store/checkpoints")));
                prop_assert_eq!(path.file_name().and_then(|name| name.to_str()), Some(name.as_str()));
            }
        }
    }
}
