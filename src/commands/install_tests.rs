//! Tests of the arguments of agents in manifests and unit files.

use super::*;

/// Parses the arguments as the agent does.
fn read<'a>(arguments: impl IntoIterator<Item = &'a str>) -> clap::ArgMatches {
    let words: Vec<&str> = std::iter::once("nodecfg-agent").chain(arguments).collect();
    nodecfg_agent::cli::command().try_get_matches_from(&words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

fn path(matches: &clap::ArgMatches, argument: &str) -> String {
    matches.get_raw(argument).and_then(|mut all| all.next()).expect(argument).to_string_lossy().into_owned()
}

fn hosts() -> [Host; 2] {
    let odd = Host {
        kubelet_config: "/etc/kubernetes/kubelet/config.json".to_owned(),
        kubelet_config_dir: Some("/etc/kubernetes/kubelet.conf.d".to_owned()),
        kubelet_root: "/data/kubelet root".to_owned(),
        listen: SocketAddr::from(([0, 0, 0, 0], 9999)),
        join: Some(Join {
            fleet: FleetName::new("prod").expect("a name"),
            namespace: NamespaceName::new("other").expect("a name"),
        }),
    };
    [Host::default(), odd]
}

fn agrees(agent: &clap::ArgMatches, host: &Host) {
    assert_eq!(path(agent, "kubelet_config"), host.kubelet_config);
    assert_eq!(path(agent, "store_dir"), "/var/lib/nodecfg");
    assert_eq!(agent.get_one("listen"), Some(&host.listen));
    assert_eq!(agent.get_one::<FleetName>("fleet"), host.join.as_ref().map(|join| &join.fleet));
    if let Some(join) = &host.join {
        assert_eq!(agent.get_one("namespace"), Some(&join.namespace));
    }
    match &host.kubelet_config_dir {
        Some(folder) => {
            assert_eq!((path(agent, "activation").as_str(), &path(agent, "kubelet_config_dir")), ("drop-in", folder));
        }
        None => assert_eq!(path(agent, "activation"), "file"),
    }
}

#[test]
fn agent_accepts_arguments_of_pods() {
    for host in hosts() {
        let agent = Agent::DaemonSet(DaemonSet {
            namespace: NamespaceName::new(AGENT_NAMESPACE).expect("a name"),
            image: "agent".to_owned(),
            host: host.clone(),
        });
        let namespace = NamespaceName::new(NAMESPACE).expect("a name");
        let objects = nodecfg_install::objects(&Installation {
            namespace,
            config_map_writers: Vec::new(),
            agent: Some(agent),
            joins: true,
            boot: Vec::new(),
        });
        let pod = &objects.last().expect("the DaemonSet")["spec"]["template"]["spec"];
        let started = |index: usize| {
            let arguments = pod["containers"][index]["args"].as_array().expect("arguments");
            read(arguments.iter().map(|argument| argument.as_str().expect("text")))
        };
        let (step, agent) = (started(0), started(1));
        let step = step.subcommand_matches("host-step").expect("the host step");
        agrees(&agent, &host);
        assert!(agent.subcommand().is_none());
        assert_eq!(path(&agent, "host_step"), path(step, "socket"));
        assert_eq!(path(step, "kubelet_root_dir"), format!("/proc/1/root{}", host.kubelet_root));
        for (argument, does) in [("restart_command", "restart"), ("stop_command", "stop")] {
            assert_eq!(path(step, argument), format!("nsenter -t 1 -m -- systemctl {does} kubelet"));
        }
        // The pod passes the node name in the environment.
        assert_eq!(pod["containers"][1]["env"][0]["name"], "NODE_NAME");
    }
}

#[test]
fn agent_accepts_arguments_of_boot_unit() {
    for host in hosts() {
        let unit = nodecfg_install::boot_unit("/usr/local/bin/nodecfg-agent", &host);
        let start = unit.split("\nExecStart=").nth(1).and_then(|rest| rest.split("\n#").next());
        let words = shlex::split(&start.expect("a command").replace("\\\n", " ")).expect("words");
        let words = words.iter().skip(1).map(String::as_str).filter(|word| *word != "$NODECFG_BOOT_OPTIONS");
        let agent = read(words.chain(["--fleet=prod", "--pool=gpu", "--startup-taint"]));
        let boot = agent.subcommand_matches("boot").expect("the boot");
        assert_eq!(path(boot, "kubelet_config"), host.kubelet_config);
        assert_eq!(path(boot, "store_dir"), "/var/lib/nodecfg");
        assert_eq!(path(boot, "kubelet_root_dir"), host.kubelet_root);
        let mode = if host.kubelet_config_dir.is_some() { "drop-in" } else { "file" };
        assert_eq!(path(boot, "activation"), mode);
    }
}

#[test]
fn agent_accepts_arguments_of_unit() {
    for host in hosts() {
        let unit = nodecfg_install::unit("/usr/local/bin/nodecfg-agent", "/etc/kubernetes/kubelet.conf", &host);
        let start = unit.split("\nExecStart=").nth(1).and_then(|rest| rest.split("\nRestart=").next());
        // For these words, systemd joins lines and splits words like a shell.
        let words = shlex::split(&start.expect("a command").replace("\\\n", " ")).expect("words");
        assert_eq!(words.first().map(String::as_str), Some("/usr/local/bin/nodecfg-agent"));
        let agent = read(words.iter().skip(1).map(String::as_str));
        agrees(&agent, &host);
        assert_eq!(path(&agent, "kubeconfig"), "/etc/kubernetes/kubelet.conf");
        assert_eq!(path(&agent, "kubelet_root_dir"), host.kubelet_root);
    }
}
