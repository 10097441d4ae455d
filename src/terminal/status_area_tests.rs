//! Tests of the status area on a simulated terminal.

use super::*;

/// A simulated terminal that wraps lines again when it becomes narrower.
#[derive(Clone)]
struct Screen(Arc<Mutex<Grid>>);

struct Grid {
    columns: usize,
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    writes: usize,
    closed: bool,
}

impl Screen {
    fn new(columns: usize) -> Self {
        let rows = vec![Vec::new()];
        Self(Arc::new(Mutex::new(Grid { columns, rows, row: 0, column: 0, writes: 0, closed: false })))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Grid) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    /// The visible lines above the cursor.
    fn seen(&self) -> Vec<String> {
        self.with(|grid| grid.rows[..grid.row].iter().map(|row| row.iter().collect()).collect())
    }

    fn status_area(&self) -> StatusArea {
        let screen = self.clone();
        StatusArea::over(Box::new(self.clone()), move || Some((screen.with(|grid| grid.columns), 24)))
    }

    fn resize(&self, columns: usize) {
        self.with(|grid| {
            grid.columns = columns;
            let rows = std::mem::take(&mut grid.rows);
            for row in &rows {
                if row.is_empty() {
                    grid.rows.push(Vec::new());
                }
                grid.rows.extend(row.chunks(columns).map(<[char]>::to_vec));
            }
            grid.row = grid.rows.len() - 1;
        });
    }
}

impl Grid {
    fn put(&mut self, c: char) {
        if self.column == self.columns {
            self.break_line();
        }
        let row = &mut self.rows[self.row];
        row.truncate(row.len().max(self.column));
        if self.column < row.len() {
            row[self.column] = c;
        } else {
            row.push(c);
        }
        self.column += 1;
    }

    fn break_line(&mut self) {
        (self.row, self.column) = (self.row + 1, 0);
        if self.row == self.rows.len() {
            self.rows.push(Vec::new());
        }
    }

    fn control(&mut self, parameter: usize, what: char) {
        match what {
            'A' => self.row = self.row.checked_sub(parameter).expect("the status area stays on the screen"),
            'K' => {
                assert_eq!(parameter, 2, "cells that are erased at the end of a row count when it is broken");
                self.rows[self.row].clear();
            }
            'J' => {
                self.rows.truncate(self.row + 1);
                self.rows[self.row].truncate(self.column);
            }
            other => panic!("unsupported control sequence: {other}"),
        }
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|grid| {
            if grid.closed {
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()));
            }
            grid.writes += 1;
            let mut rest = std::str::from_utf8(bytes).unwrap();
            while let Some(c) = rest.chars().next() {
                rest = &rest[c.len_utf8()..];
                match c {
                    '\r' => grid.column = 0,
                    '\n' => grid.break_line(),
                    '\u{1b}' => {
                        let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                        grid.control(rest[1..end].parse().unwrap_or(0), rest[end..].chars().next().unwrap());
                        rest = &rest[end + 1..];
                    }
                    c => grid.put(c),
                }
            }
            Ok(bytes.len())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lines<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

#[test]
fn redraws_in_place_below_printed_lines() {
    let screen = Screen::new(20);
    let status_area = screen.status_area();
    status_area.print("before\n").unwrap();
    status_area.draw("", lines(["one", "two, which is long"])).unwrap();
    status_area.print("a warning that is longer than the screen\n").unwrap();
    status_area.draw("an event\n", lines(["one", "2"])).unwrap();
    let above = ["before", "a warning that is lo", "nger than the screen"];
    assert_eq!(screen.seen(), [&above[..], &["an event", "one", "2"]].concat());
    status_area.draw("", lines(["one"])).unwrap();
    assert_eq!(screen.seen(), [&above[..], &["an event", "one"]].concat());
    status_area.clear().unwrap();
    status_area.print("after").unwrap();
    assert_eq!(screen.seen(), [&above[..], &["an event"]].concat());
    assert_eq!(screen.with(|grid| grid.rows[grid.row].iter().collect::<String>()), "after");
}

#[test]
fn keeps_left_lines() {
    let screen = Screen::new(20);
    let status_area = screen.status_area();
    status_area.draw("", lines(["one"])).unwrap();
    status_area.leave();
    status_area.print("two\n").unwrap();
    status_area.draw("", lines(["three"])).unwrap();
    assert_eq!(screen.seen(), ["one", "two", "three"]);
}

#[test]
fn redraws_after_resize() {
    let screen = Screen::new(40);
    let status_area = screen.status_area();
    status_area.print("before\n").unwrap();
    status_area
        .draw("", lines(["a line that takes forty columns, nearly", "short", "another one that is rather long"]))
        .unwrap();
    screen.resize(20);
    assert_eq!(screen.seen().len(), 6, "{:?}", screen.seen());
    status_area.draw("", lines(["narrow", "short"])).unwrap();
    assert_eq!(screen.seen(), ["before", "narrow", "short"]);
    screen.resize(40);
    status_area.draw("", lines(["wide again", "short"])).unwrap();
    assert_eq!(screen.seen(), ["before", "wide again", "short"]);
}

#[test]
fn skips_unchanged_lines() {
    let screen = Screen::new(40);
    let status_area = screen.status_area();
    for _ in 0..3 {
        status_area.draw("", lines(["one"])).unwrap();
    }
    assert_eq!(screen.with(|grid| grid.writes), 1);
}

#[test]
fn ignores_closed_terminal() {
    let screen = Screen::new(40);
    let status_area = screen.status_area();
    status_area.draw("", lines(["one"])).unwrap();
    screen.with(|grid| grid.closed = true);
    status_area.draw("", lines(["two"])).unwrap();
    status_area.print("three\n").unwrap();
    status_area.clear().unwrap();
    assert_eq!(status_area.size(), (40, 24));
}

#[test]
fn erases_status_line_on_drop() {
    let screen = Screen::new(12);
    let status_area = screen.status_area();
    let line = StatusLine::new(&status_area);
    line.show("fetching a long address");
    assert_eq!(screen.seen(), ["fetching a…"]);
    drop(line);
    assert_eq!(screen.seen(), [""; 0]);
}
