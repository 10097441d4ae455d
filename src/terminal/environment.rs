//! Environment variables of the program. An empty one counts as unset: a pipeline cannot unset a variable that its
//! template declares.

use std::ffi::OsString;

/// The value of a variable, unless it is empty.
pub(crate) fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Name of this machine, if it is text.
pub(crate) fn host() -> Option<String> {
    hostname::get().ok().and_then(|name| name.into_string().ok())
}

/// The value as text. Bytes that are no text become replacement characters, so that a value that cannot be used is an
/// error, and not unset.
pub(crate) fn text(name: &str) -> Option<String> {
    value(name).map(|value| value.to_string_lossy().into_owned())
}
