//! Installation of the objects for NodeConfigs and agents on a cluster.

use serde_json::Value;

use crate::layout;
use crate::report;
use crate::report::installation::{Application, Applied, Installed};
use crate::report::{Format, findings};
use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;
use nodecfg_cluster::ClusterReader;
use nodecfg_cluster::writing::apply::{Applier, Target};
use nodecfg_cluster::writing::diagnostics::InstalledObject;
use nodecfg_contract::installation::{FORMER_CONFIG_MAPS_POLICY, config_maps_policy, options_for_writers};
use nodecfg_contract::json_document::Document;
use nodecfg_contract::names::NamespaceName;
use nodecfg_contract::printable::one_line;
use nodecfg_install::Installation;

/// Applies the objects, and prints them. Returns the users whom the policy for ConfigMaps allowed before, unless the
/// cluster has no policies.
pub(crate) async fn apply(
    installation: &Installation,
    reader: &ClusterReader,
    force_conflicts: bool,
    format: Format,
    terminal: &mut Terminal,
) -> Result<Option<Vec<String>>, CommandError> {
    let applier = Applier::new(reader);
    let (objects, namespace) = (nodecfg_install::objects(installation), &installation.namespace);
    require_policies(installation, &applier, &objects).await?;
    let (mut before, mut has_policies) = (None, true);
    let mut done: Vec<(Target, Application)> = Vec::new();
    for object in &objects {
        let Some(target) = Target::of(object) else {
            return Err(CommandError::usage(
                "an object of nodecfg install has an unknown kind, which is a bug in nodecfg",
                "report this bug with the text of this message",
            ));
        };
        let is_policy = target.is_policy();
        if is_policy && !applier.serves(&target).await? {
            has_policies = false;
        }
        if !has_policies && (is_policy || nodecfg_install::needs_policies(object)) {
            done.push((target, Application::Skipped));
            continue;
        }
        if before.is_none() && target.name() == config_maps_policy(namespace.as_str()) {
            before = Some(PoliciesBefore::read(reader, namespace).await?);
        }
        applier.apply(&target, object, force_conflicts).await?;
        report_done(&target, "serverside-applied", format, terminal)?;
        if target.is_definition() {
            applier.await_established(&target).await?;
        }
        done.push((target, Application::ServersideApplied));
    }
    // After the policy that replaces it. Both together would admit only users whom both name.
    if before.as_ref().is_some_and(|before| before.has_former) {
        for target in nodecfg_install::former_config_maps_policy().iter().filter_map(Target::of) {
            applier.remove(&target).await?;
            report_done(&target, "deleted", format, terminal)?;
            done.push((target, Application::Deleted));
        }
    }
    if !has_policies {
        findings::warning_message(
            &mut terminal.err,
            "this cluster has no ValidatingAdmissionPolicy (admissionregistration.k8s.io/v1, Kubernetes 1.30), so the \
             policies were skipped: each agent may write the status of every NodeConfig, and other writers may replace \
             ConfigMaps",
            "run nodecfg install again after an upgrade of the cluster",
        )?;
    }
    let objects = done.iter().map(|(target, result)| Applied {
        resource: target.resource(),
        namespace: target.namespace(),
        name: target.name(),
        result: *result,
    });
    let writers = || nodecfg_install::config_map_writers(namespace.as_str(), &installation.config_map_writers);
    let config_map_writers = before.is_some().then(writers);
    let document = Document::value(Installed { objects: objects.collect(), config_map_writers })?;
    match format {
        Format::Json => report::json(&mut terminal.out, &document)?,
        Format::Yaml => report::yaml(&mut terminal.out, &document)?,
        _ => {}
    }
    Ok(before.map(|before| before.writers))
}

/// Prints what became of an object.
fn report_done(target: &Target, result: &str, format: Format, terminal: &mut Terminal) -> Result<(), CommandError> {
    if format == Format::Text {
        writeln!(terminal.out, "{}/{} {result}", target.resource(), target.name())?;
        terminal.out.flush()?;
    }
    Ok(())
}

/// Installed policies for the ConfigMaps of a namespace.
struct PoliciesBefore {
    /// Users whom they allow to write.
    writers: Vec<String>,
    /// Whether one has the name of earlier versions.
    has_former: bool,
}

impl PoliciesBefore {
    async fn read(reader: &ClusterReader, namespace: &NamespaceName) -> Result<Self, CommandError> {
        let name = config_maps_policy(namespace.as_str());
        let present = reader.installed_object(InstalledObject::Policy(&name)).await?;
        let former = reader.installed_object(InstalledObject::Policy(FORMER_CONFIG_MAPS_POLICY)).await?;
        // It protects one namespace, perhaps another one.
        let is_same = |policy: &Value| nodecfg_install::protected_namespace(policy) == Some(namespace.as_str());
        let former = former.filter(is_same);
        let has_former = former.is_some();
        let writers = present.or(former).as_ref().map(nodecfg_install::writers_of).unwrap_or_default();
        Ok(Self { writers, has_former })
    }
}

/// Refuses rights of new nodes on a cluster without admission policies. With --join-fleet, every agent could change all
/// Nodes and create all NodeConfigs. With --boot, a user who may write ConfigMaps could give new nodes any configuration.
async fn require_policies(
    installation: &Installation,
    applier: &Applier,
    objects: &[Value],
) -> Result<(), CommandError> {
    let (option, harm) = match (installation.joins, installation.boot.is_empty()) {
        (true, _) => ("--join-fleet", "the agent of one node could change other nodes"),
        (false, false) => ("--boot", "every user who may write ConfigMaps could configure new nodes"),
        (false, true) => return Ok(()),
    };
    for target in objects.iter().filter_map(Target::of).filter(Target::is_policy) {
        if !applier.serves(&target).await? {
            return Err(CommandError::usage(
                format!(
                    "{option} requires ValidatingAdmissionPolicy (admissionregistration.k8s.io/v1, Kubernetes 1.30): \
                     without it, {harm}"
                ),
                format!("omit {option}, or upgrade the cluster"),
            ));
        }
    }
    Ok(())
}

/// Prints who may write ConfigMaps, how to add the present user, and who may do so no longer.
pub(crate) async fn print_writers(
    installation: &Installation,
    reader: &ClusterReader,
    before: &[String],
    format: Format,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    let Installation { namespace, config_map_writers: named, .. } = installation;
    let now = nodecfg_install::config_map_writers(namespace.as_str(), named);
    let with = |others: &[String]| options_for_writers(others.iter().map(String::as_str));
    if format == Format::Text {
        let width = terminal.err_line;
        let line = format!("Users who may write ConfigMaps of nodecfg: {}", now.join(", "));
        writeln!(terminal.info(), "{}", layout::hanging(&line, 2, width))?;
        // The installation is complete without the name.
        let user = reader.whoami().await.unwrap_or_default().filter(|user| !now.contains(user));
        if let Some(user) = user {
            let options = with(std::slice::from_ref(&user));
            let line = one_line(&format!("To run nodecfg sync as {user}, repeat this command with `{options}`"));
            writeln!(terminal.info(), "{}", layout::hanging(&line, 2, width))?;
        }
    }
    let dropped: Vec<String> = before.iter().filter(|user| !now.contains(user)).cloned().collect();
    if !dropped.is_empty() {
        tracing::warn!(
            "no longer among the users who may write ConfigMaps of nodecfg: {}. Repeat this command with `{}` to add them \
             again",
            dropped.join(", "),
            with(&dropped)
        );
    }
    Ok(())
}
