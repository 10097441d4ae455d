//! The login of a host in a netrc file, as curl and git read it. Pure.

/// The user name and the password of a host; of the default entry when the host has none.
#[must_use]
pub fn login(text: &str, host: &str) -> Option<(String, String)> {
    let mut words = text.lines().map(|line| line.trim_start()).filter(|line| !line.starts_with('#')).flat_map(words);
    let mut within = false;
    let (mut user, mut password) = (None, None);
    while let Some(word) = words.next() {
        match word {
            "machine" | "default" => {
                if within && password.is_some() {
                    break;
                }
                (user, password) = (None, None);
                within = word == "default" || words.next().is_some_and(|name| name.eq_ignore_ascii_case(host));
            }
            "login" => user = words.next().filter(|_| within).or(user),
            "password" => password = words.next().filter(|_| within).or(password),
            "account" => {
                words.next();
            }
            // A macro ends the part that can be understood.
            "macdef" => break,
            _ => {}
        }
    }
    Some((user.unwrap_or_default().to_owned(), password.filter(|_| within)?.to_owned()))
}

/// The words of a line; one in double quotes may hold spaces.
fn words(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        found.push(word);
        rest = after.trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_of_a_host() {
        let text = "# a comment\nmachine one.example login me password \"a b\"\n\
                    machine two.example\n  login you\n  password secret\nmachine no.example login x\n\
                    default login any password other\nmacdef init\nmachine late.example password x\n";
        let of = |host: &str| login(text, host).map(|(user, password)| format!("{user}:{password}"));
        assert_eq!(of("one.example").as_deref(), Some("me:a b"));
        assert_eq!(of("TWO.example").as_deref(), Some("you:secret"));
        assert_eq!(of("late.example").as_deref(), Some("any:other"));
        assert_eq!(login("machine x login y", "x"), None);
        assert_eq!(login("machine x login y password z", "other"), None);
        assert_eq!(login("password z", "x"), None);
        assert_eq!(login("", "x"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "\\PC{0,80}", host in "[a-z.]{0,8}") {
            let _ = login(&text, &host);
        }
    }
}
