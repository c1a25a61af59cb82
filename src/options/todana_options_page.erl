%% docs/configuration.md, from the option table.
%%
%%     bin/todana config reference > docs/configuration.md
-module(todana_options_page).
-moduledoc false.

-export([page/0]).

-doc "The page.".
-spec page() -> iodata().
page() ->
    Groups = lists:uniq([Group || #{group := Group} <- todana_options:all()]),
    [
        "# Configuration\n\n"
        "<!-- Generated: bin/todana config reference > "
        "docs/configuration.md -->\n\n"
        "Each option can be given in four ways, in this order of "
        "precedence:\n\n"
        "1. a flag: `bin/todana start --memory-limit 512mb`\n"
        "2. an environment variable: `TODANA_MEMORY_LIMIT=512mb`\n"
        "3. a line of the configuration file, which `--config FILE` or "
        "`TODANA_CONFIG` names:\n"
        "   `memory_limit = 512mb`; a `#` at the beginning or after a blank "
        "starts a comment\n"
        "4. the default\n\n"
        "Embedded in another release, the application's environment takes the "
        "place of 1 to 3:\n"
        "`{todana, [{memory_limit, \"512mb\"}]}`.\n\n"
        "Todana ignores the variables that Kubernetes sets for a service "
        "called `todana`\n"
        "(`TODANA_SERVICE_...`, `TODANA_PORT...`). It reads `password_file` "
        "whenever the listeners start,\n"
        "including a restart after a failure.\n\n"
        "If an option is unknown, or a value has the wrong form, Todana does "
        "not start, and the error names\n"
        "the option. `bin/todana config show` prints every value and its "
        "source; `config check` reports\n"
        "errors. Sizes are in bytes, or have a unit: `64kb`, `512mb`, `2gb`, "
        "`1tb` (powers of 1,024).\n",
        [group(Group) || Group <- Groups]
    ].

-spec group(string()) -> iodata().
group(Group) ->
    Rows = [row(O) || #{group := G} = O <- todana_options:all(), G =:= Group],
    [
        "\n## ", Group, "\n\n"
        "| option | default | meaning |\n"
        "|---|---|---|\n",
        Rows
    ].

-spec row(todana_options:option()) -> iodata().
row(#{name := Name, type := Type, doc := Doc} = Option) ->
    [
        "| `", atom_to_list(Name), "` | ", default(Option), " | ", Doc,
        " *Form:* ", todana_option_type:describe(Type), ". |\n"
    ].

-spec default(todana_options:option()) -> iodata().
default(#{default := Default, embedded := Embedded}) ->
    ["`", Default, "` (embedded: `", Embedded, "`)"];
default(#{default := Default}) ->
    ["`", Default, "`"].
