//! Tests of the HTML report in a browser: it is self-contained, executes no hostile content, and works in light and
//! dark mode, by keyboard, with assistive technology and in print. Without chromium or chromedriver in the PATH, the
//! tests print that they are skipped.
//!
//! `PAGES=FOLDER cargo test --test program browser pages` writes the pages to a folder for inspection.

mod driver;
mod pages;

use driver::with;
use fantoccini::Locator;
use fantoccini::key::Key;
use serde_json::json;

#[test]
fn page_is_self_contained_and_logs_nothing() {
    with(&pages::run(20, 2), async |browser| {
        assert_eq!(browser.console().await, json!([]));
        assert_eq!(browser.eval("return performance.getEntriesByType('resource').map(e => e.name)").await, json!([]));
        // The content security policy blocks requests, scripts and styles.
        let tried = "const done = arguments[0]; fetch('data:,x').then(() => done('fetched'), () => done('refused'))";
        assert_eq!(browser.client.execute_async(tried, Vec::new()).await.unwrap(), json!("refused"));
        let tried = "const s = document.createElement('script'); s.textContent = 'window.ran = true'; \
                     document.body.append(s); const p = document.querySelector('p'); p.setAttribute('style', 'color: red'); \
                     return [window.ran === true, getComputedStyle(p).color === 'rgb(255, 0, 0)']";
        assert_eq!(browser.eval(tried).await, json!([false, false]));
    });
}

#[test]
fn text_has_contrast_in_light_and_dark_mode() {
    with(&pages::run(20, 2), async |browser| {
        let mut papers = Vec::new();
        for scheme in ["light", "dark"] {
            browser.prefer(scheme).await;
            papers.push(browser.eval("return getComputedStyle(document.body).backgroundColor").await);
            // WCAG 2.2, 1.4.3 requires 4.5 to 1 for text.
            assert_eq!(browser.eval(CONTRAST).await, json!([]), "{scheme}");
        }
        assert_ne!(papers[0], papers[1]);
    });
}

/// Script that returns every text with a contrast below 4.5.
const CONTRAST: &str = "
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (element) => {
        for (let e = element; e; e = e.parentElement) {
            const color = parse(getComputedStyle(e).backgroundColor);
            if (color.length < 4 || color[3] > 0) return color;
        }
        return [255, 255, 255];
    };
    const faint = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || element.closest('script, [hidden]')) continue;
        const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) faint.push([element.tagName, walker.currentNode.data, ratio]);
    }
    return faint;";

#[test]
fn grid_is_usable_by_keyboard() {
    with(&pages::run(200, 2), async |browser| {
        let focus = "return document.activeElement.getAttribute('aria-label')";
        browser.eval("document.querySelector('.search input').focus()").await;
        // Each grid is one tab stop: from the search to the first node of the first grid.
        let press = async |key: Key| {
            browser.client.active_element().await.unwrap().send_keys(&key.to_string()).await.unwrap();
            browser.eval(focus).await.as_str().unwrap_or_default().to_owned()
        };
        assert_eq!(press(Key::Tab).await, "ip-10-0-0-0.ec2.internal, converged");
        assert_eq!(press(Key::Right).await, "ip-10-0-0-1.ec2.internal, converged");
        assert_eq!(press(Key::Left).await, "ip-10-0-0-0.ec2.internal, converged");
        assert_eq!(press(Key::End).await, "ip-10-0-0-99.ec2.internal, converged");
        let up = press(Key::Up).await;
        assert_ne!(up, "ip-10-0-0-99.ec2.internal, converged");
        assert_eq!(press(Key::Down).await, "ip-10-0-0-99.ec2.internal, converged");
        assert_eq!(press(Key::Home).await, "ip-10-0-0-0.ec2.internal, converged");
        for _ in 0..3 {
            press(Key::Right).await;
        }
        let detail = browser.eval("return document.getElementById('detail').innerText").await.to_string();
        assert!(detail.contains("ip-10-0-0-3") && detail.contains("failed to validate config"), "{detail}");
        // The node's row, in a closed table.
        press(Key::Enter).await;
        let row = "const row = document.querySelector(':target'); \
                   return [row.cells[0].textContent, row.closest('details').open, row.checkVisibility()]";
        assert_eq!(browser.eval(row).await, json!(["ip-10-0-0-3.ec2.internal", true, true]));
    });
}

#[test]
fn filters_nodes_by_state_and_name() {
    with(&pages::run(200, 2), async |browser| {
        let shown = "return [document.querySelectorAll('.grid li:not([hidden])').length, \
                     document.querySelectorAll('.nodes tbody tr:not([hidden])').length, \
                     document.querySelector('.found').textContent]";
        let chip = browser.client.find(Locator::Css("button.chip")).await.unwrap();
        assert_eq!(browser.role_and_name(&chip).await, ("button".to_owned(), "4 failed".to_owned()));
        chip.click().await.unwrap();
        assert_eq!(chip.attr("aria-pressed").await.unwrap().as_deref(), Some("true"));
        assert_eq!(browser.eval(shown).await, json!([4, 4, "4 of 200 nodes shown"]));
        chip.click().await.unwrap();
        browser.client.find(Locator::Css(".search input")).await.unwrap().send_keys("ip-10-1-0-7").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        assert_eq!(browser.eval(shown).await, json!([11, 11, "11 of 200 nodes shown"]));
    });
}

#[test]
fn visible_content_is_accessible() {
    with(&pages::run(20, 2), async |browser| {
        let role_and_name = async |css: &str| {
            let element = browser.client.find(Locator::Css(css)).await.unwrap();
            browser.role_and_name(&element).await
        };
        let pair = |role: &str, name: &str| (role.to_owned(), name.to_owned());
        assert_eq!(role_and_name(".grid").await, pair("list", "Nodes: pool-00"));
        assert_eq!(role_and_name(".grid .failed").await, pair("link", "ip-10-0-0-3.ec2.internal, failed"));
        assert_eq!(role_and_name(".grid li").await.0, "listitem");
        assert_eq!(role_and_name("table.nodes").await, pair("table", "Nodes: pool-00"));
        assert_eq!(role_and_name("table.nodes tbody th").await, pair("rowheader", "ip-10-0-0-0.ec2.internal"));
        assert_eq!(role_and_name("table.changes").await, pair("table", "Changes: pool-00, pool-01"));
        assert_eq!(role_and_name(".search input").await, pair("searchbox", "Find"));
        assert_eq!(role_and_name("main").await.0, "main");
        let heading = role_and_name("h1").await;
        assert_eq!(heading.0, "heading");
        assert!(heading.1.starts_with("Not done after"), "{heading:?}");
        let ids = "const ids = [...document.querySelectorAll('[id]')].map(e => e.id); \
                   const dead = [...document.links].filter(a => !document.getElementById(a.hash.slice(1))); \
                   return [new Set(ids).size === ids.length, dead.length]";
        assert_eq!(browser.eval(ids).await, json!([true, 0]));
    });
}

#[test]
fn states_differ_not_only_by_color() {
    with(&pages::run(80, 2), async |browser| {
        let signs = "const seen = {}; for (const c of document.querySelectorAll('.grid a')) { const s = getComputedStyle(c); \
                     const plain = s.backgroundColor === 'rgba(0, 0, 0, 0)', edge = s.borderColor !== 'rgba(0, 0, 0, 0)'; \
                     seen[c.className] = [getComputedStyle(c, '::before').content, s.borderStyle, s.borderRadius, \
                     s.backgroundImage !== 'none', plain, edge].join(); } \
                     const all = Object.values(seen); return [all.length, new Set(all).size]";
        assert_eq!(browser.eval(signs).await, json!([9, 9]));
    });
}

#[test]
fn hostile_text_stays_text() {
    with(&pages::hostile(), async |browser| {
        assert_eq!(browser.console().await, json!([]));
        let title = browser.client.title().await.unwrap();
        assert!(title.starts_with("nodecfg sync: Not done"), "{title}");
        let found = "return [document.scripts.length, document.querySelectorAll('img, iframe, object, base, form').length, \
                     [...document.querySelectorAll('*')].flatMap(e => [...e.attributes]).filter(a => /^on|^style$|^src/.test(a.name)).length, \
                     [...document.links].every(a => a.getAttribute('href').startsWith('#'))]";
        assert_eq!(browser.eval(found).await, json!([1, 0, 0, true]));
        let text = browser.eval("return document.body.innerText").await.as_str().unwrap().to_owned();
        for hostile in &pages::HOSTILE[..5] {
            assert!(text.contains(hostile), "{hostile} is not shown unchanged");
        }
        assert!(text.contains("⟨U+202E⟩lamron") && text.contains("⟨U+0000⟩⟨U+001B⟩[31m&lt;b&gt;"), "{text}");
    });
}

#[test]
fn page_is_complete_without_scripts() {
    let page = pages::run(200, 2);
    with(&page, async |browser| {
        browser.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
        browser.client.refresh().await.unwrap();
        let cell = browser.client.find(Locator::Css(".grid .failed")).await.unwrap();
        assert_eq!(browser.role_and_name(&cell).await.1, "ip-10-0-0-3.ec2.internal, failed");
        cell.click().await.unwrap();
        let row = browser.client.find(Locator::Css("tr:target")).await.unwrap();
        assert!(row.is_displayed().await.unwrap());
        let search = browser.client.find(Locator::Css(".search")).await.unwrap();
        assert!(!search.is_displayed().await.unwrap());
    });
}

#[test]
fn page_with_five_thousand_nodes_is_usable_and_printable() {
    with(&pages::run(5000, 4), async |browser| {
        assert_eq!(browser.console().await, json!([]));
        assert_eq!(browser.eval("return document.querySelectorAll('.grid a').length").await, json!(5000));
        let wide = "return document.documentElement.scrollWidth <= window.innerWidth";
        assert_eq!(browser.eval(wide).await, json!(true));
        browser.client.find(Locator::Css("button.chip")).await.unwrap().click().await.unwrap();
        assert_eq!(browser.eval("return document.querySelectorAll('.grid li:not([hidden])').length").await, json!(104));
        let printed = browser.post("print", json!({})).await;
        assert!(printed.as_str().unwrap().starts_with("JVBERi0"), "a PDF, in base64");
    });
}

/// Writes the pages to the folder in PAGES.
#[test]
fn writes_pages_for_inspection() {
    let Some(folder) = std::env::var_os("PAGES").map(std::path::PathBuf::from) else { return };
    for (name, page) in [
        ("20", pages::run(20, 2)),
        ("5000", pages::run(5000, 4)),
        ("15000", pages::run(15000, 6)),
        ("hostile", pages::hostile()),
    ] {
        let mut file = std::fs::File::create(folder.join(format!("{name}.html"))).unwrap();
        nodecfg::report::document::html::write(&mut file, &page, jiff::Timestamp::UNIX_EPOCH).unwrap();
    }
}
