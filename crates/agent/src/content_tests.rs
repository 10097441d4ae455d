//! Tests of the checks of downloaded content.

use super::*;
use nodecfg_contract::ConfigSource;

const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn payload(body: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("kubelet".to_owned(), format!("{HEADER}{body}"))])
}

fn version(text: &str) -> Option<KubeletVersion> {
    KubeletVersion::parse(text)
}

/// A file of `--config`, and drop-ins before the reviewed one. None for a replacement.
fn node(texts: &[&str]) -> Underneath {
    let mut texts = texts.iter().map(|text| (*text).to_owned());
    let (config, drop_ins) = (texts.next(), texts.collect());
    Underneath { by_kubelet: config.is_some(), config, drop_ins }
}

/// Result for a kubelet 1.36.2, as text.
fn outcome(payload: &BTreeMap<String, String>, underneath: &[&str]) -> String {
    match check_config(payload, "kubelet", &node(underneath), version("v1.36.2")) {
        ConfigCheck::Accepted => "accepted".to_owned(),
        ConfigCheck::NotLoaded { message, kubelet } => format!("{} does not load: {message}", kubelet.unwrap()),
        ConfigCheck::NotPlaceable { message } => message,
        ConfigCheck::NotValid { message, kubelet } => format!("{} refuses: {message}", kubelet.unwrap()),
    }
}

#[test]
fn checks_every_stage() {
    for (body, expected) in [
        ("maxPods: 250\n", "accepted"),
        ("noSuchField: 5\n", "accepted"),
        ("maxPods: many\n", "v1.36.2 does not load: "),
        ("maxPods: [\n", "v1.36.2 does not load: "),
        ("maxPods: -5\n", "v1.36.2 refuses: "),
        ("healthzPort: 1e4\n", "accepted"),
        ("featureGates: {NodeSwap: false}\n", "v1.36.2 refuses: "),
        // The kubelet accepts this value and then fails to start.
        ("evictionHard: {no.such.signal: 5%}\n", "v1.36.2 refuses: "),
    ] {
        let result = outcome(&payload(body), &[]);
        assert!(
            result.starts_with(expected) && (expected == "accepted" || result.len() > expected.len()),
            "{body}: {result}"
        );
    }
    let missing = BTreeMap::from([("config".to_owned(), String::new())]);
    assert_eq!(
        outcome(&missing, &[]),
        "v1.36.2 does not load: the ConfigMap has no key \"kubelet\", but the keys config"
    );
    assert!(outcome(&BTreeMap::new(), &[]).ends_with("but no keys"));
}

#[test]
fn limits_listed_reasons() {
    let body = "maxPods: -5\nport: -1\noomScoreAdj: 5000\nhealthzPort: -1\n";
    let result = outcome(&payload(body), &[]);
    assert!(result.ends_with("; and 1 more") && result.contains("maxPods"), "{result}");
}

#[test]
fn checks_drop_in_merged_with_base() {
    let base = format!("{HEADER}imageGCHighThresholdPercent: 70\n");
    let over = payload("imageGCLowThresholdPercent: 75\n");
    assert_eq!(outcome(&over, &[]), "accepted");
    assert!(outcome(&over, &[&base]).starts_with("v1.36.2 refuses: "));
    // Files are merged in order.
    assert_eq!(outcome(&over, &[&base, &base.replace("70", "90")]), "accepted");
    // Every merged file must load by itself.
    let bare = BTreeMap::from([("kubelet".to_owned(), "maxPods: 5\n".to_owned())]);
    assert!(outcome(&bare, &[&base]).starts_with("v1.36.2 does not load: "));
    assert!(outcome(&over, &["["]).contains("the node's own configuration cannot be read"));
    // Values of the files below stay on the node; those of the drop-in are in its ConfigMap.
    let secret = format!("{HEADER}imageGCHighThresholdPercent: 71\nmaxPods: -5\nclusterDomain: \"hunter 2\"\n");
    let refusal = outcome(&payload("imageGCLowThresholdPercent: 75\nport: -7\n"), &[&secret]);
    for shown in [
        "port",
        "-7",
        "imageGCLowThresholdPercent is from the reviewed configuration, imageGCHighThresholdPercent from the node's own",
        "maxPods: the kubelet refuses the value with the node's own configuration (",
        "; maxPods is from the node's own configuration",
    ] {
        assert!(refusal.contains(shown), "{refusal}");
    }
    for hidden in ["71", "-5", "hunter"] {
        assert!(!refusal.contains(hidden), "{refusal}");
    }
    assert!(!outcome(&over, &[&format!("{HEADER}maxPods: hunter2\n")]).contains("hunter2"));
    assert!(!outcome(&over, &["hunter2"]).contains("hunter2"));
    let whole = merged_text(&Underneath::file(base), Some(&over["kubelet"]), None).unwrap();
    assert!(whole.contains("imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 75\n"), "{whole}");
}

/// In a drop-in, null has no effect before 1.32, and removes a value since then.
#[test]
fn follows_the_rules_of_drop_ins_of_the_version() {
    let own = format!("{HEADER}imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 50\n");
    let over = payload("imageGCHighThresholdPercent: null\nimageGCLowThresholdPercent: 75\n");
    let (drop_in, file) = (node(&[&own]), Underneath::file(own));
    let accepts =
        |underneath, kubelet| check_config(&over, "kubelet", underneath, version(kubelet)) == ConfigCheck::Accepted;
    assert!(!accepts(&drop_in, "v1.30.0") && accepts(&drop_in, "v1.32.0"));
    assert!(accepts(&file, "v1.30.0"), "the agent merges it");
    let high = |underneath, kubelet| {
        let overlay = format!("{HEADER}imageGCHighThresholdPercent: null\n");
        let text = merged_text(underneath, Some(&overlay), version(kubelet)).unwrap();
        text.lines().find(|line| line.starts_with("imageGCHigh")).map(str::to_owned)
    };
    assert_eq!(high(&drop_in, "v1.30.0").unwrap(), "imageGCHighThresholdPercent: 70");
    assert_eq!(high(&drop_in, "v1.32.0").unwrap(), "imageGCHighThresholdPercent: 85");
    assert_eq!(high(&file, "v1.30.0"), None);
    // A kubelet stops at a key that is twice in a drop-in.
    let twice = node(&[HEADER, &format!("{HEADER}maxPods: 1\nmaxPods: 2\n")]);
    let ConfigCheck::NotLoaded { message, .. } = check_config(&over, "kubelet", &twice, version("v1.32.0")) else {
        panic!("accepted")
    };
    assert!(message.contains("the node's own configuration cannot be read"), "{message}");
}

#[test]
fn checks_unknown_kubelet_as_nearest_version() {
    for (kubelet, words) in [
        (None, format!(" (the kubelet's version is unknown; checked as {NEWEST_RELEASED})")),
        (version("v1.99.0"), format!(" (no rules for kubelet v1.99.0; checked as {NEWEST})")),
        (version("v1.5.0"), format!(" (no rules for kubelet v1.5.0; checked as {OLDEST})")),
        (version("v2.0.0"), format!(" (no rules for kubelet v2.0.0; checked as {NEWEST})")),
    ] {
        let bad = check_config(&payload("maxPods: -5\n"), "kubelet", &node(&[]), kubelet);
        assert!(matches!(bad, ConfigCheck::NotValid { message, .. } if message.ends_with(&words)), "{words}");
        assert_eq!(check_config(&payload("maxPods: 5\n"), "kubelet", &node(&[]), kubelet), ConfigCheck::Accepted);
    }
}

#[test]
fn checks_gates_for_newer_and_unknown_kubelets() {
    let gate = |name: &str, kubelet| {
        check_config(&payload(&format!("featureGates: {{{name}: true}}\n")), "kubelet", &node(&[]), kubelet)
    };
    assert_eq!(gate("NotInventedYet", version("v1.99.0")), ConfigCheck::Accepted);
    assert!(matches!(gate("NotInventedYet", version("v1.36.2")), ConfigCheck::NotValid { .. }));
    // Newer kubelets lack this gate; older ones have it.
    assert_eq!(gate("DynamicKubeletConfig", None), ConfigCheck::Accepted);
    assert!(matches!(gate("DynamicKubeletConfig", version("v1.36.2")), ConfigCheck::NotValid { .. }));
    assert!(matches!(gate("NotInventedYet", None), ConfigCheck::NotValid { .. }), "no kubelet version has the gate");
}

#[test]
fn refuses_disabled_healthz() {
    assert!(outcome(&payload("healthzPort: 0\n"), &[]).contains("healthzPort is 0"));
    let without = format!("{HEADER}healthzPort: 0\n");
    assert_eq!(outcome(&payload("healthzPort: 10249\n"), &[&without]), "accepted");
    // The drop-in alone would have the default port.
    assert!(outcome(&payload("maxPods: 5\n"), &[&without]).contains("healthzPort is 0"));
}

#[test]
fn truncates_messages() {
    let result = outcome(&payload(&format!("maxPods: {}\n", "x".repeat(50_000))), &[]);
    assert!(result.chars().count() < MAX_MESSAGE + 100 && result.contains('…'), "{}", result.len());
    let keys: BTreeMap<String, String> = (0..5000).map(|n| (format!("key-{n}"), String::new())).collect();
    let ConfigCheck::NotLoaded { message, .. } = check_config(&keys, "kubelet", &node(&[]), None) else {
        panic!("no such key")
    };
    assert!(message.chars().count() < MAX_MESSAGE + 100, "{}", message.len());
}

fn download(name: &str, payload: BTreeMap<String, String>) -> Download {
    Download { source: ConfigSource::config_map("ns", name, "kubelet"), payload, ..Download::default() }
}

fn hash_of(body: &str) -> ContentHash {
    ContentHash::of(read(&payload(body)["kubelet"]).unwrap().canonical().as_bytes())
}

#[test]
fn accepts_only_required_content() {
    let (good, evil) = (hash_of("maxPods: 5\n"), hash_of("maxPods: 6\n"));
    let required = good.to_string();
    for same in ["maxPods: 5\n", "# five\nmaxPods:   5\n"] {
        assert_eq!(verify(&download("a", payload(same)), Some(&required), None), Ok(good), "{same}");
    }
    // Neither the name nor the present assignment replaces spec.contentHash.
    let named = format!("fleet-a-{}", evil.short());
    for accepted in [None, Some(evil.to_string())] {
        let refused = verify(&download(&named, payload("maxPods: 6\n")), Some(&required), accepted.as_deref());
        let Err(FetchError::OtherContent(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains(&required) && why.contains(&evil.to_string()), "{why}");
    }
    for malformed in ["", "v9:other:00", &required.to_uppercase()] {
        assert!(verify(&download("a", payload("maxPods: 5\n")), Some(malformed), None).is_err(), "{malformed}");
    }
    // A kubelet may read the first of two values.
    let twice = payload("")["kubelet"].clone();
    let header: serde_json::Value = serde_saphyr::from_str(&twice).unwrap();
    let twice = header.to_string().replace('}', ", \"maxPods\": 6, \"maxPods\": 5}");
    assert_eq!(ContentHash::of(read(&twice).unwrap().canonical().as_bytes()), good);
    for body in [BTreeMap::new(), payload("[\n"), BTreeMap::from([("kubelet".to_owned(), twice)])] {
        assert!(verify(&download("a", body), Some(&required), None).is_err());
    }
}

#[test]
fn without_required_hash_accepts_only_the_hash_in_the_name() {
    let good = hash_of("maxPods: 5\n");
    let named = |name: &str| verify(&download(name, payload("maxPods: 5\n")), None, None);
    assert_eq!(named(&format!("fleet-a-{}", good.short())), Ok(good));
    for other in
        ["a".to_owned(), format!("fleet-a-{}", hash_of("").short()), good.short(), format!("{}-a", good.short())]
    {
        assert!(matches!(named(&other), Err(FetchError::OtherContent(_))), "{other}");
    }
    // An assignment from before spec.contentHash keeps its content, and only that.
    let accepted = good.to_string();
    assert_eq!(verify(&download("a", payload("maxPods: 5\n")), None, Some(&accepted)), Ok(good));
    assert!(verify(&download("a", payload("maxPods: 6\n")), None, Some(&accepted)).is_err());
}

#[test]
fn finds_worst_change_beyond_defaults() {
    let worst = |from: &str, to: &str| {
        let text = |body: &str| format!("{HEADER}{body}");
        worst_change(&text(from), &text(to), version("v1.36.2")).map(|(class, field)| format!("{class} {field}"))
    };
    assert_eq!(worst("maxPods: 5\n", "maxPods: 5\n"), None);
    assert_eq!(worst("", "cpuManagerPolicy: static\n").as_deref(), Some("drain cpuManagerPolicy"));
    assert_eq!(
        worst("cpuManagerPolicy: static\nmaxPods: 5\n", "maxPods: 6\n").as_deref(),
        Some("drain cpuManagerPolicy")
    );
    assert_eq!(worst("", "noSuchField: 1\n").as_deref(), Some("drain noSuchField"));
    // The worst of several, and the first of equal ones.
    let several =
        "clusterDNS: [10.0.0.9]\ncpuManagerPolicy: static\nenableControllerAttachDetach: false\nmaxPods: 250\n";
    assert_eq!(worst("", several).as_deref(), Some("drain cpuManagerPolicy"));
    // More pods harm none; fewer may.
    assert_eq!(worst("maxPods: 5\n", "maxPods: 6\n").as_deref(), Some("restart maxPods"));
    assert_eq!(worst("maxPods: 6\n", "maxPods: 5\n").as_deref(), Some("drain maxPods"));
    // The previous configuration cannot be read, so it may have had any value.
    assert_eq!(
        worst_change("[", &format!("{HEADER}cpuManagerPolicy: static\n"), version("v1.36.2")),
        Some((Class::Drain, "cpuManagerPolicy".to_owned()))
    );
    // kubeadm writes zero durations, which the kubelet replaces by its defaults.
    let zeros = "cpuManagerReconcilePeriod: 0s\nevictionPressureTransitionPeriod: 0s\nfileCheckFrequency: 0s\n\
                 httpCheckFrequency: 0s\nimageMinimumGCAge: 0s\nnodeStatusReportFrequency: 0s\n\
                 nodeStatusUpdateFrequency: 0s\nruntimeRequestTimeout: 0s\nshutdownGracePeriod: 0s\n\
                 shutdownGracePeriodCriticalPods: 0s\nstreamingConnectionIdleTimeout: 0s\nsyncFrequency: 0s\n\
                 volumeStatsAggPeriod: 0s\nlogging: {flushFrequency: 0, options: {json: {infoBufferSize: \"0\"}}, \
                 verbosity: 0}\nmemorySwap: {}\nimageMaximumGCAge: 0s\ncontainerRuntimeEndpoint: \"\"\n\
                 cpuManagerPolicy: none\n";
    assert_eq!(worst(zeros, ""), None);
    assert_eq!(worst("", zeros), None);
    // An older kubelet has no such default.
    let with_workers = format!("{HEADER}containerLogMaxWorkers: 1\n");
    assert_eq!(worst_change(HEADER, &with_workers, version("v1.36.2")), None);
    assert!(worst_change(HEADER, &with_workers, version("v1.21.14")).is_some());
}

#[test]
fn reads_healthz_address() {
    for (body, address, port) in [
        ("", "127.0.0.1", 10248),
        ("healthzPort: 10250\n", "127.0.0.1", 10250),
        ("healthzPort: 0\n", "127.0.0.1", 0),
        ("healthzPort: 1e4\n", "127.0.0.1", 10_000),
        ("healthzPort: 10249.0\n", "127.0.0.1", 10_249),
        ("healthzBindAddress: 10.0.0.7\nhealthzPort: null\n", "10.0.0.7", 10248),
        ("healthzBindAddress: ''\nhealthzPort: 99999\n", "127.0.0.1", 10248),
    ] {
        assert_eq!(healthz(&format!("{HEADER}{body}")), Healthz { address: address.to_owned(), port }, "{body}");
    }
    assert_eq!(healthz("["), Healthz { address: "127.0.0.1".to_owned(), port: 10248 });
}

#[test]
fn lists_state_files_of_changed_policies() {
    let text = |body: &str| format!("{HEADER}{body}");
    let names = |from: &str, to: &str| {
        state_files(&text(from), &text(to)).iter().map(|file| file.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("maxPods: 5\n", "maxPods: 6\n"), "");
    assert_eq!(names("", "cpuManagerPolicy: static\n"), "cpu_manager_state");
    assert_eq!(names("cpuManagerPolicy: static\n", "cpuManagerPolicy: none\n"), "cpu_manager_state");
    assert_eq!(names("memoryManagerPolicy: Static\n", ""), "memory_manager_state");
    assert_eq!(
        names("", "cpuManagerPolicy: static\nmemoryManagerPolicy: Static\n"),
        "cpu_manager_state memory_manager_state"
    );
    assert_eq!(names("", "evictionHard: {memory.available: 1Gi}\n"), "", "no policy uses the file");
}

#[test]
fn publishes_no_key_of_a_local_map() {
    let reviewed = Some("evictionHard: {memory.available: 1Gi}");
    for (path, reviewed, expected) in [
        ("evictionHard.memory.available", reviewed, "evictionHard.memory.available"),
        ("evictionHard.hunter2", reviewed, "evictionHard"),
        ("evictionHard.memory.available", None, "evictionHard"),
        ("authentication.x509.clientCAFile", None, "authentication.x509.clientCAFile"),
        ("staticPodURLHeader[\"hunter2\"][0]", reviewed, "staticPodURLHeader"),
        ("hunter2", reviewed, "an unknown field"),
    ] {
        assert_eq!(public_path(path, reviewed), expected, "{path}");
    }
}

/// A reconciler foretells the value of a field that leaves the overlay.
#[test]
fn lists_own_values_of_the_fields_of_an_overlay() {
    let own = format!(
        "{HEADER}maxPods: 110\nclusterDNS: [10.0.0.10]\nevictionHard: {{memory.available: 100Mi, hunter2: 1Mi}}\n\
         clusterDomain: null\nregistryBurst: 7\n"
    );
    let drop_in = format!("{HEADER}maxPods: 120\n");
    let listed = |overlay: &str| {
        let texts = node(&[&own, &drop_in]);
        let EffectiveStatus { beneath, beneath_more, .. } = beneath(&texts, &format!("{HEADER}{overlay}")).unwrap();
        let values: Vec<String> = beneath.iter().map(|own| format!("{} {}", own.field, own.value)).collect();
        (values.join("; "), beneath_more)
    };
    for (overlay, expected) in [
        ("maxPods: 60\n", "maxPods 120"),
        ("clusterDNS: []\nclusterDomain: x\npodPidsLimit: 9\n", "clusterDNS [\"10.0.0.10\"]"),
        (
            "evictionHard: {memory.available: 1Gi, nodefs.available: 5%}\n",
            "evictionHard[\"memory.available\"] \"100Mi\"",
        ),
        ("evictionHard: {}\n", ""),
        // A value that replaces another kind.
        ("maxPods: {hunter2: 1}\n", "maxPods 120"),
    ] {
        assert_eq!(listed(overlay), (expected.to_owned(), 0), "{overlay}");
    }
    assert_eq!(beneath(&node(&["["]), HEADER), None);
    assert_eq!(beneath(&node(&[]), HEADER), None);
}

/// Anyone who may read NodeConfigs sees them.
#[test]
fn lists_no_secret_and_a_bounded_number_of_own_values() {
    let long = "x".repeat(300);
    let secret = format!(
        "{HEADER}staticPodURLHeader: {{Authorization: [hunter2]}}\nstaticPodURL: https://hunter2@h/\nstaticPodPath: /{long}\n"
    );
    let overlay =
        format!("{HEADER}staticPodURLHeader: {{Authorization: [x]}}\nstaticPodURL: https://h/\nstaticPodPath: /p\n");
    let found = beneath(&node(&[&secret]), &overlay).unwrap();
    assert_eq!(found, EffectiveStatus { beneath_more: 3, ..EffectiveStatus::default() });
    let keys: Vec<String> = (0..100).map(|key| format!("k{key}: \"1\"")).collect();
    let many = format!("{HEADER}systemReserved: {{{}}}\n", keys.join(", "));
    let found = beneath(&node(&[&many]), &many).unwrap();
    assert_eq!((found.beneath.len(), found.beneath_more), (EffectiveStatus::MAX_BENEATH, 36));
}

/// The node's administrators must find the file, and the authors of the overlay must not see its values.
#[test]
fn says_which_side_a_refused_value_is_from() {
    let own = format!("{HEADER}evictionSoft: {{memory.available: 777Mi}}\n");
    let refusal = outcome(&payload("evictionSoftGracePeriod: {nodefs.available: 1m}\n"), &[&own]);
    let sides = "evictionSoftGracePeriod is from the reviewed configuration, evictionSoft from the node's own";
    assert!(refusal.contains(sides) && !refusal.contains("777"), "{refusal}");
}
