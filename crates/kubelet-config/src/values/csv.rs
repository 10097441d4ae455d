//! Tables in the format CSV with a header line.

/// Returns the cells of each line after the header (RFC 4180). A cell in double quotes may contain commas and doubled
/// quotes. No cell contains a line break.
pub fn rows(text: &'static str) -> impl Iterator<Item = Vec<String>> {
    text.lines().skip(1).map(|line| cells(line).into_iter().map(unquote).collect())
}

/// Splits a line into cells, without removing quotes.
fn cells(line: &str) -> Vec<&str> {
    let (mut cells, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => {
                cells.extend(line.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    cells.extend(line.get(start..));
    cells
}

fn unquote(cell: &str) -> String {
    match cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_quoted_cells() {
        assert_eq!(rows("head\na,\"b,\"\"c\"\"\",,d").collect::<Vec<_>>(), [["a", "b,\"c\"", "", "d"]]);
    }
}
