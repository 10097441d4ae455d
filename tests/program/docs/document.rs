//! Parser of Markdown files: fenced blocks with the test directives in the comments before them.

use std::path::Path;

/// A document and its blocks.
pub struct Document {
    pub file: String,
    pub blocks: Vec<Block>,
}

/// One fenced block.
pub struct Block {
    /// Line of the opening fence, from 1.
    pub line: usize,
    pub language: String,
    /// Text without the indentation of the fence.
    pub text: String,
    pub directives: Vec<Directive>,
    /// Whether a directive comment precedes the block.
    pub has_comment: bool,
}

/// Directive of a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directive {
    /// Commands of the block exit with these codes.
    Exit(Vec<i32>),
    /// The command keeps running. The next block starts when this file exists.
    Background(String),
    Setting(Setting),
    Cluster(Cluster),
    /// The text is written to this file.
    File(String),
    /// The text is output of the preceding commands.
    Output,
    /// The block depends on one that needs this program.
    Needs(String),
}

/// Content of the scratch folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// A configuration repository.
    Repository,
    /// A clone of this project.
    Clone,
}

/// Cluster of `KUBECONFIG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cluster {
    Version(&'static str),
    None,
}

impl Block {
    pub fn is_shell(&self) -> bool {
        self.language == "sh"
    }
}

impl Document {
    pub fn read(root: &Path, file: String) -> Self {
        let text = std::fs::read_to_string(root.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        Self::parse(file, &text)
    }

    fn parse(file: String, text: &str) -> Self {
        let mut blocks = Vec::new();
        let mut lines = text.lines().enumerate();
        // The line before.
        let mut before = "";
        while let Some((index, line)) = lines.next() {
            let bare = line.trim_start();
            if let Some(information) = bare.strip_prefix("```") {
                let indentation = &line[..line.len() - bare.len()];
                let mut body = String::new();
                for (_, line) in lines.by_ref().take_while(|(_, line)| line.trim() != "```") {
                    body.push_str(line.strip_prefix(indentation).unwrap_or(line.trim_start()));
                    body.push('\n');
                }
                let comment = before.trim().strip_prefix("<!-- test:").and_then(|rest| rest.strip_suffix("-->"));
                blocks.push(Block {
                    line: index + 1,
                    language: information.split_whitespace().next().unwrap_or_default().to_owned(),
                    text: body,
                    directives: comment.map_or_else(Vec::new, |comment| {
                        comment
                            .split(';')
                            .map(|directive| Directive::parse(directive.trim(), &format!("{file}:{index}")))
                            .collect()
                    }),
                    has_comment: comment.is_some(),
                });
            }
            before = line;
        }
        Self { file, blocks }
    }
}

impl Directive {
    fn parse(text: &str, location: &str) -> Self {
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        match (verb, rest) {
            ("exit", codes) if !codes.is_empty() => Self::Exit(
                codes
                    .split(',')
                    .map(|code| {
                        code.trim().parse().unwrap_or_else(|_| panic!("{location}: {code:?} is not an exit code"))
                    })
                    .collect(),
            ),
            ("background", rest) if rest.starts_with("until ") => Self::Background(rest["until ".len()..].to_owned()),
            ("setting", "repository") => Self::Setting(Setting::Repository),
            ("setting", "clone") => Self::Setting(Setting::Clone),
            ("cluster", "1.21") => Self::Cluster(Cluster::Version("1.21")),
            ("cluster", "1.36") => Self::Cluster(Cluster::Version("1.36")),
            ("cluster", "none") => Self::Cluster(Cluster::None),
            ("file", path) if !path.is_empty() => Self::File(path.to_owned()),
            ("output", "") => Self::Output,
            ("needs", tool) if crate::docs::OPTIONAL.contains(&tool) => Self::Needs(tool.to_owned()),
            _ => panic!("{location}: unknown directive {text:?}; see tests/program/docs/mod.rs"),
        }
    }
}

#[test]
fn parses_blocks_and_directives() {
    let text = "\
# T

<!-- test: setting clone; exit 1, 5 -->
```sh
one
```

1. In a list:

   ```sh
   two
     three
   ```
<!-- test: file a/b.yaml -->
```yaml
a: 1
```
";
    let document = Document::parse("t.md".to_owned(), text);
    let texts: Vec<&str> = document.blocks.iter().map(|block| block.text.as_str()).collect();
    assert_eq!(texts, ["one\n", "two\n  three\n", "a: 1\n"]);
    assert_eq!(document.blocks[0].directives, [Directive::Setting(Setting::Clone), Directive::Exit(vec![1, 5])]);
    assert_eq!(document.blocks[2].directives, [Directive::File("a/b.yaml".to_owned())]);
    assert_eq!(document.blocks.iter().map(|block| block.line).collect::<Vec<_>>(), [4, 10, 15]);
    assert!(document.blocks[0].is_shell() && !document.blocks[2].is_shell());
}
