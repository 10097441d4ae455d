//! Fields of log records on one line: a message may quote a cluster, a git server or another program, and must neither
//! forge a record nor control a terminal.

use std::fmt;

use nodecfg_contract::printable::one_line;
use tracing::field::Field;
use tracing_subscriber::fmt::format::Writer;

/// Writes one field, without hidden characters. Separate fields by a space.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(out: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = one_line(&format!("{value:?}"));
    if field.name() == "message" { write!(out, "{text}") } else { write!(out, "{}={text}", field.name()) }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::field::MakeExt as _;
    use tracing_subscriber::fmt::format::debug_fn;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn record_is_one_line_whatever_it_quotes() {
        let written = Written::default();
        let out = written.clone();
        let logs = tracing_subscriber::fmt()
            .with_writer(move || out.clone())
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .fmt_fields(debug_fn(super::write).delimited(" "));
        tracing::subscriber::with_default(logs.finish(), || {
            let quoted = "x\u{1b}[2J\u{9b}2J\n WARN forged\r\u{202e}y";
            tracing::warn!(node = "a\nb", "held by {quoted}, 5 s");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, " WARN held by x [2J 2J WARN forged y, 5 s node=\"a\\nb\"\n");
    }
}
