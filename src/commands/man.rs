//! `nodecfg man`: manual pages, generated from the command definitions.

use std::fs;
use std::path::{Path, PathBuf};

use clap_mangen::Man;

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::commands::command_line;
use crate::terminal::exit;
use kubelet_config::finding::nearest;

/// Print a manual page, or write all pages to a folder, also those of nodecfg-agent.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Print the page of this command; join nested commands with hyphens. Default: the page of nodecfg.
    #[arg(value_name = "PAGE")]
    page: Option<String>,
    /// Write all pages to this folder, one file each: nodecfg.1, nodecfg-sync.1 and so on.
    #[arg(long, value_name = "FOLDER", conflicts_with = "page")]
    out: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg man sync | man -l -                       read one page
  nodecfg man --out ~/.local/share/man/man1         install all pages for man";

/// Program name, which starts the name of every page.
const PROGRAM: &str = "nodecfg";
/// The node agent.
const AGENT: &str = "nodecfg-agent";

pub(super) fn run(args: &Args, terminal: &mut Terminal) -> CommandResult {
    let pages = pages();
    if let Some(folder) = &args.out {
        write(folder, &pages)?;
        writeln!(terminal.info(), "{} manual pages in {}", pages.len(), folder.display())?;
        return Ok(Exit::Done);
    }
    let requested = args.page.as_deref().unwrap_or(PROGRAM);
    let name = if requested == PROGRAM || requested.starts_with("nodecfg-") {
        requested.to_owned()
    } else {
        format!("{PROGRAM}-{requested}")
    };
    match pages.iter().find(|page| page.name == name) {
        Some(page) => terminal.out.write_all(page.text.as_bytes())?,
        None => {
            let near = nearest(&name, pages.iter().map(|page| page.name.as_str()));
            let help = near.map_or_else(
                || "list the commands with `nodecfg --help`".to_owned(),
                |near| format!("did you mean {near}?"),
            );
            return Err(CommandError::usage(format!("unknown manual page {name}"), help));
        }
    }
    Ok(Exit::Done)
}

fn write(folder: &Path, pages: &[Page]) -> Result<(), CommandError> {
    let failed = |path: &Path, error: std::io::Error| {
        CommandError::usage(format!("cannot write {}: {error}", path.display()), "name a writable folder")
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for page in pages {
        let path = folder.join(format!("{}.1", page.name));
        fs::write(&path, &page.text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// A manual page of section 1.
struct Page {
    name: String,
    /// Source in the man(7) macro language.
    text: String,
}

/// Names of all pages without the prefix `nodecfg-`.
pub(super) fn names() -> Vec<String> {
    pages().into_iter().filter_map(|page| Some(page.name.strip_prefix("nodecfg-")?.to_owned())).collect()
}

/// The pages of nodecfg and nodecfg-agent.
fn pages() -> Vec<Page> {
    // The description of the agent states its exit codes.
    let mut all = pages_of(command_line::declared(), exit::TABLE, AGENT);
    all.extend(pages_of(nodecfg_agent::cli::command(), "", PROGRAM));
    all
}

/// The program and all commands, including nested ones.
fn commands(mut program: clap::Command) -> Vec<clap::Command> {
    fn add(command: &clap::Command, all: &mut Vec<clap::Command>) {
        all.push(command.clone());
        visible(command).for_each(|command| add(command, all));
    }
    program.build();
    let mut all = Vec::new();
    add(&program, &mut all);
    all
}

/// The pages of a program. The first refers to the program `other`, too.
fn pages_of(program: clap::Command, exit_codes: &str, other: &str) -> Vec<Page> {
    let commands = commands(program);
    let related = |index: usize, command: &clap::Command| -> Vec<String> {
        let below = visible(command).map(name);
        let is_above = |other: &&clap::Command| visible(other).any(|below| name(below) == name(command));
        let other = (index == 0).then(|| other.to_owned());
        commands.iter().filter(is_above).map(name).chain(below).chain(other).collect()
    };
    let page =
        |(index, command)| Page { name: name(command), text: text(command, &related(index, command), exit_codes) };
    commands.iter().enumerate().map(page).collect()
}

/// The nested commands with a page. `help` prints the help of the others.
fn visible(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn text(command: &clap::Command, see_also: &[String], exit_codes: &str) -> String {
    let notes = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let has_commands = command.has_subcommands();
    let version = concat!("nodecfg ", env!("CARGO_PKG_VERSION"));
    // Without a date, so that the same program produces the same pages.
    let man = Man::new(command.clone());
    let title = name(command).to_uppercase();
    let mut text = format!(".TH \"{}\" \"1\" \"\" \"{version}\" \"nodecfg manual\"\n", escaped(&title));
    let mut bytes = Vec::new();
    // Writing to a vector cannot fail.
    let _ = man
        .render_name_section(&mut bytes)
        .and_then(|()| man.render_synopsis_section(&mut bytes))
        .and_then(|()| man.render_description_section(&mut bytes))
        .and_then(|()| man.render_options_section(&mut bytes))
        .and_then(|()| if has_commands { man.render_subcommands_section(&mut bytes) } else { Ok(()) });
    // Every section defines how to print an apostrophe; one definition is enough.
    let mut known = Vec::new();
    for line in String::from_utf8_lossy(&bytes).lines() {
        let defines = line.starts_with(".ie ") || line.starts_with(".el ");
        if !defines || !known.contains(&line.to_owned()) {
            text.push_str(line);
            text.push('\n');
        }
        if defines {
            known.push(line.to_owned());
        }
    }
    for (title, lines) in
        notes.iter().flat_map(|notes| sections(notes)).filter(|(title, _)| title != EXIT_CODES_HEADING)
    {
        section(&mut text, &title, &lines);
    }
    for (_, lines) in sections(exit_codes) {
        section(&mut text, "Exit status", &lines);
    }
    if !see_also.is_empty() {
        text.push_str(".SH \"SEE ALSO\"\n");
        let pages: Vec<String> = see_also.iter().map(|page| format!("\\fB{}\\fR(1)", escaped(page))).collect();
        text.push_str(&pages.join(", "));
        text.push('\n');
    }
    text
}

/// Heading of the exit codes in `--help`.
const EXIT_CODES_HEADING: &str = "Exit codes";

/// Parses the text after the options in `--help`: headings that end with a colon, and indented lines.
fn sections(notes: &str) -> Vec<(String, Vec<&str>)> {
    let mut sections: Vec<(String, Vec<&str>)> = Vec::new();
    for line in notes.lines() {
        match (line.strip_suffix(':').filter(|_| !line.starts_with(' ')), sections.last_mut()) {
            (Some(title), _) => sections.push((title.to_owned(), Vec::new())),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => sections.push(("Notes".to_owned(), vec![line])),
        }
    }
    sections
}

/// Adds a section with unfilled lines.
fn section(text: &mut String, title: &str, lines: &[&str]) {
    text.push_str(&format!(".SH \"{}\"\n.nf\n", escaped(&title.to_uppercase())));
    let end = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    for line in lines.iter().take(end) {
        text.push_str(&escaped(line));
        text.push('\n');
    }
    text.push_str(".fi\n");
}

/// Escapes a text so that man does not interpret any part.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_help_sections() {
        let found = sections("Kinds:\n  a  one\n\nExamples:\n  nodecfg x");
        let titles: Vec<&str> = found.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles, ["Kinds", "Examples"]);
        let mut text = String::new();
        section(&mut text, "Kinds", &found[0].1);
        assert_eq!(text, ".SH \"KINDS\"\n.nf\n  a  one\n.fi\n");
    }

    #[test]
    fn escapes_roff() {
        assert_eq!(escaped(".so \\n"), "\\&.so \\en");
        assert_eq!(escaped("--out \"x\""), "\\-\\-out \\(dqx\\(dq");
    }
}
