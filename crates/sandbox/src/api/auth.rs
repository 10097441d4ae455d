//! Who asks, and whether they may.

use std::collections::BTreeSet;

use super::request::ResourcePath;
use super::status::{ApiError, ApiResult};

/// Who sends requests without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// What a user may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Everything, as `system:masters`.
    Admin,
    /// What some rule allows.
    Rules(Vec<Rule>),
}

/// What is allowed; `*` stands for any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verbs: Vec<String>,
    /// API groups; the empty text is the core group.
    pub groups: Vec<String>,
    /// Resources, with their subresource: `nodes`, `nodes/status`.
    pub resources: Vec<String>,
    /// The namespace the rule is for; none for the whole cluster.
    pub namespace: Option<String>,
    /// The names of the objects the rule is for (`resourceNames`); empty for all of them.
    pub names: Vec<String>,
}

/// Somebody who sends requests. Put into a request's extensions, it replaces authentication by token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name that refusals quote.
    pub name: String,
    /// What they may do.
    pub access: Access,
}

impl User {
    /// A user who may do everything.
    #[must_use]
    pub fn admin(name: &str) -> Self {
        Self { name: name.to_owned(), access: Access::Admin }
    }

    /// A user who may do what these rules allow, and no more.
    #[must_use]
    pub fn with_rules(name: &str, rules: Vec<Rule>) -> Self {
        Self { name: name.to_owned(), access: Access::Rules(rules) }
    }

    pub(crate) fn anonymous() -> Self {
        Self::with_rules(ANONYMOUS, Vec::new())
    }
}

/// What is refused whoever asks, so that tests can see refusals.
#[derive(Debug, Default)]
pub(crate) struct Denials(BTreeSet<(Option<String>, String, String)>);

/// What is to be done to what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Action<'a> {
    /// The verb.
    pub(crate) verb: &'a str,
    /// API group.
    pub(crate) group: &'a str,
    /// Resource, with its subresource.
    pub(crate) resource: &'a str,
    /// Namespace; empty for the whole cluster.
    pub(crate) namespace: &'a str,
    /// Name of the object; empty for a collection, and for what is to be created.
    pub(crate) name: &'a str,
}

impl Denials {
    pub(crate) fn insert(&mut self, user: Option<&str>, verb: &str, resource: &str) {
        self.0.insert((user.map(str::to_owned), verb.to_owned(), resource.to_owned()));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn refuses(&self, user: &User, action: &Action<'_>) -> bool {
        self.0.iter().any(|(who, verb, resource)| {
            who.as_ref().is_none_or(|who| *who == user.name)
                && (verb == "*" || verb == action.verb)
                && (resource == "*" || resource == action.resource)
        })
    }
}

/// Whether a user may do something.
pub(crate) fn allows(user: &User, denials: &Denials, action: &Action<'_>) -> bool {
    if denials.refuses(user, action) {
        return false;
    }
    // What RBAC's ClusterRole system:basic-user lets everybody who is known ask about themselves.
    let about_oneself = action.verb == "create"
        && matches!(
            (action.group, action.resource),
            ("authorization.k8s.io", "selfsubjectaccessreviews") | ("authentication.k8s.io", "selfsubjectreviews")
        );
    if about_oneself && user.name != ANONYMOUS {
        return true;
    }
    let any = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
    match &user.access {
        Access::Admin => true,
        Access::Rules(rules) => rules.iter().any(|rule| {
            any(&rule.verbs, action.verb)
                && any(&rule.groups, action.group)
                && any(&rule.resources, action.resource)
                && rule.namespace.as_ref().is_none_or(|namespace| namespace == action.namespace)
                && (rule.names.is_empty() || rule.names.iter().any(|name| name == action.name))
        }),
    }
}

/// `resource` or `resource/subresource`.
pub(crate) fn resource_text(path: &ResourcePath) -> String {
    if path.subresource.is_empty() { path.resource.clone() } else { format!("{}/{}", path.resource, path.subresource) }
}

/// Refuses what a user may not do to a resource.
///
/// # Errors
/// 403 with Kubernetes' text.
pub(crate) fn authorize(user: &User, denials: &Denials, verb: &str, path: &ResourcePath) -> ApiResult<()> {
    let resource = resource_text(path);
    let action = Action { verb, group: &path.group, resource: &resource, namespace: &path.namespace, name: &path.name };
    if allows(user, denials, &action) {
        return Ok(());
    }
    let place = if path.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {:?}", path.namespace)
    };
    let why = format!("User {:?} cannot {verb} resource {resource:?} in API group {:?} {place}", user.name, path.group);
    Err(ApiError::forbidden(&path.resource, &path.group, &path.name, &why))
}

/// Refuses paths that only those who are known may read.
///
/// # Errors
/// 403 for the anonymous user.
pub(crate) fn authorize_path(user: &User, verb: &str, path: &str) -> ApiResult<()> {
    if user.name != ANONYMOUS {
        return Ok(());
    }
    Err(ApiError::forbidden_path(&format!("User {:?} cannot {verb} path {path:?}", user.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(namespace: &str, name: &str) -> ResourcePath {
        ResourcePath {
            group: "coordination.k8s.io".to_owned(),
            version: "v1".to_owned(),
            namespace: namespace.to_owned(),
            resource: "leases".to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
        }
    }

    #[test]
    fn refusals_name_user_verb_resource_and_place() {
        let none = Denials::default();
        let error = authorize(&User::anonymous(), &none, "get", &path("kube-system", "x")).unwrap_err();
        assert_eq!(
            error.message,
            "leases.coordination.k8s.io \"x\" is forbidden: User \"system:anonymous\" cannot get resource \"leases\" in API \
             group \"coordination.k8s.io\" in the namespace \"kube-system\""
        );
    }

    #[test]
    fn rules_allow_and_denials_refuse() {
        let rule = Rule {
            verbs: vec!["get".to_owned()],
            groups: vec!["*".to_owned()],
            resources: vec!["leases".to_owned()],
            namespace: Some("a".to_owned()),
            names: Vec::new(),
        };
        let named = Rule { namespace: None, names: vec!["y".to_owned()], ..rule.clone() };
        let user = User::with_rules("u", vec![rule, named]);
        let mut denials = Denials::default();
        assert!(authorize(&user, &denials, "get", &path("a", "x")).is_ok());
        assert!(authorize(&user, &denials, "get", &path("b", "x")).is_err());
        assert!(authorize(&user, &denials, "get", &path("b", "y")).is_ok());
        assert!(authorize(&user, &denials, "get", &path("b", "")).is_err());
        assert!(authorize(&user, &denials, "patch", &path("a", "x")).is_err());
        denials.insert(None, "get", "leases");
        assert!(authorize(&User::admin("root"), &denials, "get", &path("a", "x")).is_err());
        denials.clear();
        assert!(authorize(&User::admin("root"), &denials, "get", &path("a", "x")).is_ok());
    }

    #[test]
    fn everybody_who_is_known_may_ask_what_they_may() {
        let review = ResourcePath {
            group: "authorization.k8s.io".to_owned(),
            resource: "selfsubjectaccessreviews".to_owned(),
            ..path("", "")
        };
        let nobody = User::with_rules("u", Vec::new());
        assert!(authorize(&nobody, &Denials::default(), "create", &review).is_ok());
        assert!(authorize(&nobody, &Denials::default(), "get", &review).is_err());
        assert!(authorize(&User::anonymous(), &Denials::default(), "create", &review).is_err());
    }
}
