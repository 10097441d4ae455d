//! User data for cloud-init: `write_files`.
//!
//! Schema: `cc_write_files` in `cloudinit/config/schemas/schema-cloud-config-v1.json`. The first line must be
//! `#cloud-config`. The owner is `root:root` by default. cloud-init creates missing folders.

use kubelet_config::document::canonical_text;

use super::{NodeFile, RenderError, Subject, indented};

pub(super) fn render(subject: &Subject<'_>, file: &NodeFile) -> Result<String, RenderError> {
    file.check(subject)?;
    let heading = subject.heading(&[]);
    let path = canonical_text(&file.path());
    let content = indented(&subject.rendered.canonical, 4);
    // Permissions are text: a number would be read as decimal. Only root reads the file, which may contain secrets.
    // Without `defer`, the file exists before packages are installed, whose services start at once.
    Ok(format!(
        "#cloud-config\n{heading}write_files:\n- path: {path}\n  owner: \"root:root\"\n  permissions: \"0600\"\n  \
         content: |\n{content}"
    ))
}
