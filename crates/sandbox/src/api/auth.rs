//! Users, their rules, and authorization of requests.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Api;
use super::object::{set_field, text};
use super::request::ResourcePath;
use super::status::{ApiError, ApiResult};

/// User name of requests without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// Allowed actions; `*` matches any value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verbs: Vec<String>,
    /// API groups; the empty string is the core group.
    pub groups: Vec<String>,
    /// Resources with their subresources: `nodes`, `nodes/status`.
    pub resources: Vec<String>,
    /// Namespace of the rule; `None` for the whole cluster.
    pub namespace: Option<String>,
    /// Names of the objects (`resourceNames`); empty for all objects.
    pub names: Vec<String>,
}

/// User who sends requests. In the extensions of a request, it replaces token authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User name, which authorization errors quote.
    pub name: String,
    /// Access rights: actions that at least one rule allows.
    pub rules: Vec<Rule>,
}

impl User {
    /// Returns a user with all rights.
    #[must_use]
    pub fn admin(name: &str) -> Self {
        let all = || vec!["*".to_owned()];
        let rule = Rule { verbs: all(), groups: all(), resources: all(), namespace: None, names: Vec::new() };
        Self::with_rules(name, vec![rule])
    }

    /// Returns a user with only the rights of these rules.
    #[must_use]
    pub fn with_rules(name: &str, rules: Vec<Rule>) -> Self {
        Self { name: name.to_owned(), rules }
    }

    pub(crate) fn anonymous() -> Self {
        Self::with_rules(ANONYMOUS, Vec::new())
    }
}

/// Denials by user, verb and resource, with which tests provoke authorization errors.
#[derive(Debug, Default)]
pub(crate) struct Denials(BTreeSet<(Option<String>, String, String)>);

impl Denials {
    pub(crate) fn insert(&mut self, user: Option<&str>, verb: &str, resource: &str) {
        self.0.insert((user.map(str::to_owned), verb.to_owned(), resource.to_owned()));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn refuses(&self, user: &User, verb: &str, resource: &str) -> bool {
        self.0.iter().any(|(who, denied, from)| {
            who.as_ref().is_none_or(|who| *who == user.name)
                && ["*", verb].contains(&denied.as_str())
                && ["*", resource].contains(&from.as_str())
        })
    }
}

/// Reports whether the rules of a user allow an action on a resource.
fn allows(user: &User, verb: &str, resource: &str, path: &ResourcePath) -> bool {
    // RBAC's ClusterRole system:basic-user grants these reviews to all authenticated users.
    if matches!((verb, resource), ("create", "selfsubjectaccessreviews" | "selfsubjectreviews")) {
        return user.name != ANONYMOUS;
    }
    let any = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
    user.rules.iter().any(|rule| {
        any(&rule.verbs, verb)
            && any(&rule.groups, &path.group)
            && any(&rule.resources, resource)
            && rule.namespace.as_ref().is_none_or(|namespace| *namespace == path.namespace)
            && (rule.names.is_empty() || rule.names.contains(&path.name))
    })
}

/// Authorizes an action on a resource.
///
/// # Errors
/// 403 with the message of Kubernetes.
pub(crate) fn authorize(user: &User, denials: &Denials, verb: &str, path: &ResourcePath) -> ApiResult<()> {
    let resource = path.resource_text();
    if !denials.refuses(user, verb, &resource) && allows(user, verb, &resource, path) {
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

/// Authorizes access to a path that requires authentication.
///
/// # Errors
/// 403 for the anonymous user.
pub(crate) fn authorize_path(user: &User, verb: &str, path: &str) -> ApiResult<()> {
    if user.name != ANONYMOUS {
        return Ok(());
    }
    Err(ApiError::forbidden_path(&format!("User {:?} cannot {verb} path {path:?}", user.name)))
}

/// Answers a SelfSubjectAccessReview or a SelfSubjectReview of a user.
pub(crate) fn review(api: &Api, user: &User, mut review: Value) -> Value {
    let attribute = |key: &str| text(&review, &format!("/spec/resourceAttributes/{key}")).to_owned();
    let path = ResourcePath {
        group: attribute("group"),
        version: attribute("version"),
        namespace: attribute("namespace"),
        resource: attribute("resource"),
        name: attribute("name"),
        subresource: attribute("subresource"),
    };
    let status = match review.get("spec") {
        None => json!({"userInfo": {"username": user.name, "groups": ["system:authenticated"]}}),
        Some(spec) if spec.get("nonResourceAttributes").is_some() => json!({"allowed": user.name != ANONYMOUS}),
        Some(_) => json!({"allowed": api.authorize(user, &attribute("verb"), &path).is_ok()}),
    };
    set_field(&mut review, "status", status);
    review
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
    fn forbidden_message_names_user_verb_resource_and_scope() {
        let none = Denials::default();
        let error = authorize(&User::anonymous(), &none, "get", &path("kube-system", "x")).unwrap_err();
        assert_eq!(
            error.message,
            "leases.coordination.k8s.io \"x\" is forbidden: User \"system:anonymous\" cannot get resource \"leases\" in API \
             group \"coordination.k8s.io\" in the namespace \"kube-system\""
        );
    }

    #[test]
    fn denials_override_rules() {
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
    fn authenticated_users_may_review_their_access() {
        let review = ResourcePath {
            group: "authorization.k8s.io".to_owned(),
            resource: "selfsubjectaccessreviews".to_owned(),
            ..path("", "")
        };
        let without_rules = User::with_rules("u", Vec::new());
        assert!(authorize(&without_rules, &Denials::default(), "create", &review).is_ok());
        assert!(authorize(&without_rules, &Denials::default(), "get", &review).is_err());
        assert!(authorize(&User::anonymous(), &Denials::default(), "create", &review).is_err());
    }
}
