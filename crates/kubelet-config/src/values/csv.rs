//! Tables in the format CSV with a header line.

/// Returns the cells of each line after the header (RFC 4180). A cell in double quotes may contain commas and doubled
/// quotes. No cell contains a line break.
pub fn rows(text: &'static str) -> impl Iterator<Item = Vec<String>> {
    text.lines().skip(1).filter_map(cells)
}

/// Splits a line into cells. `None` if it is malformed: a quote is inside a cell without quotes, or text follows a closing
/// quote.
pub(crate) fn cells(line: &str) -> Option<Vec<String>> {
    let (mut cells, mut rest) = (Vec::new(), line);
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            None => {
                let (cell, after) = rest.split_once(',').map_or((rest, None), |(cell, after)| (cell, Some(after)));
                (Some(cell.to_owned()).filter(|cell| !cell.contains('"'))?, after)
            }
            Some(quoted) => {
                let mut end = quoted.find('"')?;
                while quoted.get(end + 1..)?.starts_with('"') {
                    end = end + 2 + quoted.get(end + 2..)?.find('"')?;
                }
                let after = quoted.get(end + 1..)?;
                let after = if after.is_empty() { None } else { Some(after.strip_prefix(',')?) };
                (quoted.get(..end)?.replace("\"\"", "\""), after)
            }
        };
        cells.push(cell);
        match after {
            None => return Some(cells),
            Some(after) => rest = after,
        }
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
