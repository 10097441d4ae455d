//! The configuration that a kubelet runs, from its files and flags on this machine, or from its own answer.

use std::path::Path;

use crate::terminal::environment;
use crate::terminal::failure::CommandError;
use kubelet_config::Minor;
use kubelet_config::effective::{ConfigFile, Effective, Kubelet, Origin, Refused, effective, flag_paths};
use kubelet_config::verdict::Stage;

mod files;
pub(crate) mod node;

/// Variable in the kubelet's environment that 1.28 and 1.29 require for --config-dir.
const DROP_IN_ALPHA: &str = "KUBELET_CONFIG_DROPIN_DIR_ALPHA";

/// What a kubelet does with these files and flags. The outer error is about this command. `config` and `config_dir`
/// override those of the flags.
pub(crate) fn of_files(
    config: Option<&Path>,
    config_dir: Option<&Path>,
    flags: &[String],
    minor: Minor,
) -> Result<Result<Effective, Refused>, CommandError> {
    let [of_flags, dir_of_flags] = match flag_paths(flags, minor) {
        Ok(paths) => paths,
        Err(refused) => return Ok(Err(refused)),
    };
    let config = config.or(of_flags.as_deref().map(Path::new));
    let config_dir = config_dir.or(dir_of_flags.as_deref().map(Path::new));
    let mut files = files::Files::default();
    let text = match config.map(|path| files.text(path)).transpose() {
        Ok(text) => text,
        Err(message) => {
            return Ok(Err(Refused { stage: Stage::Load, by: Some(Origin::Config), message, refusals: Vec::new() }));
        }
    };
    // Relative paths in the file start at its absolute path.
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    let path = config.map(absolute).unwrap_or_default();
    let config_dir = config_dir.map(|path| files.config_dir(path)).transpose()?;
    Ok(effective(&Kubelet {
        minor,
        config: text.as_deref().map(|text| ConfigFile { path: &path, text }),
        config_dir: config_dir.as_ref(),
        drop_in_alpha: environment::value(DROP_IN_ALPHA).is_some(),
        flags,
    }))
}
