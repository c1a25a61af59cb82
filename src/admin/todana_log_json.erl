%% Formats events of the log as one JSON object for each line.
-module(todana_log_json).
-moduledoc false.

-export([format/2]).

-define(TEXT, #{
    single_line => true, legacy_header => false, template => [msg]
}).

-doc "`{\"time\": .., \"level\": .., \"message\": ..}` and a line end.".
-spec format(logger:log_event(), logger:formatter_config()) ->
    unicode:chardata().
format(#{level := Level, meta := #{time := Time}} = Event, _Config) ->
    Text = logger_formatter:format(Event, ?TEXT),
    Named =
        case node() of
            nonode@nohost -> [];
            Node -> [{node, Node}]
        end,
    Fields = [
        {time, list_to_binary(calendar:system_time_to_rfc3339(
            Time, [{unit, microsecond}, {offset, "Z"}]
        ))},
        {level, Level}
    ] ++ Named ++ [{message, valid(Text)}],
    %% People read these lines, too: the order is that of a line of text.
    [json:encode(Fields, fun encode/2), $\n].

-spec encode(term(), json:encoder()) -> iodata().
encode([{_, _} | _] = Fields, Encode) ->
    json:encode_key_value_list(Fields, Encode);
encode(Value, Encode) ->
    json:encode_value(Value, Encode).

%% A text that is not Unicode is printed as a term.
-spec valid(unicode:chardata()) -> binary().
valid(Text) ->
    case unicode:characters_to_binary(Text) of
        Bytes when is_binary(Bytes) -> Bytes;
        _ -> unicode:characters_to_binary(io_lib:format("~0tp", [Text]))
    end.
