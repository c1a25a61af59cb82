%% Why a log cannot be used, as a term and as a sentence.
-module(todana_log_problem).
-moduledoc false.

-export([is_problem/1, describe/1, words/1, entries/2, unusable/2,
         cause/1, flat/1, plain/1, is_final/1]).

-export_type([problem/0]).

-type problem() ::
    {damaged, file:filename(), Offset :: non_neg_integer(), Why :: iodata()}
    %% Entries between its end and the next file are missing.
    | {ended, file:filename(), Why :: iodata()}
    %% A snapshot, a file that had entries, or what a file said.
    | {missing, file:filename(), Why :: iodata()}
    %% The log ends before an entry that was confirmed.
    | {short, file:filename(), Why :: iodata()}
    %% Other members know that this one had confirmed more, or that all had.
    | {older | gone_on, file:filename(), Why :: iodata()}
    %% A segment, of which nothing else has the entry.
    | {broken, file:filename(), Offset :: non_neg_integer(), Why :: iodata()}
    %% A snapshot; the sentence of the native library names the file.
    | {snapshot, file:filename(), Sentence :: iodata()}
    | {unusable, file:filename(), Why :: iodata()}.

-doc "Whether this is one, and not a reason of Ra's.".
-spec is_problem(term()) -> boolean().
is_problem({Kind, _File, _Why}) ->
    lists:member(Kind, [
        ended, missing, short, snapshot, unusable, older, gone_on
    ]);
is_problem({Kind, _File, _Offset, _Why}) ->
    lists:member(Kind, [damaged, broken]);
is_problem(_Reason) ->
    false.

-doc "A problem as a sentence.".
-spec describe(problem()) -> string().
describe({snapshot, _File, Sentence} = Problem) ->
    text("~ts~ts", [Sentence, advice(Problem)]);
describe({unusable, File, _} = Problem) ->
    text("~ts ~ts", [File, words(Problem)]);
describe(Problem) ->
    text("~ts: ~ts", [element(2, Problem), words(Problem)]).

-doc "The same behind the name of the file.".
-spec words(problem()) -> string().
words({damaged, _File, Offset, Why} = Problem) ->
    text("the record at byte ~b is damaged, ~ts~ts",
         [Offset, Why, advice(Problem)]);
words({broken, _File, Offset, Why} = Problem) ->
    text("it is damaged at offset ~b: ~ts~ts", [Offset, Why, advice(Problem)]);
words({snapshot, File, Sentence} = Problem) ->
    Whole = text("~ts", [Sentence]),
    Words = case string:prefix(Whole, File) of
        nomatch -> Whole;
        Rest -> string:trim(Rest, leading)
    end,
    text("~ts~ts", [Words, advice(Problem)]);
words({unusable, _File, Why}) ->
    text("cannot be used: ~ts", [Why]);
words({_Kind, _File, Why} = Problem) ->
    text("~ts~ts", [Why, advice(Problem)]).

-spec advice(problem()) -> string().
advice({damaged, File, _, _}) ->
    advice(File, "cuts the log there");
advice({ended, File, _}) ->
    advice(File, "ends the log there");
advice({short, File, _}) ->
    advice(File, "accepts the loss");
advice({older, _, _}) ->
    ": " ++ todana_log_remedy:older_copy();
advice({gone_on, _, _}) ->
    ": see docs/cluster.md, \"Older copies\", before you give them up";
advice(Problem) ->
    ": " ++ todana_log_remedy:words(element(2, Problem)).

-spec advice(file:filename(), string()) -> string().
advice(File, RepairDoes) ->
    ": " ++ todana_log_remedy:repair(File, RepairDoes).

-doc "Says that the entries from the one to the other are missing.".
-spec entries(non_neg_integer(), non_neg_integer()) -> string().
entries(Index, Index) -> text("entry ~b is missing", [Index]);
entries(From, To) -> text("entries ~b to ~b are missing", [From, To]).

-doc "Whether no later attempt can succeed: the files are not what they were.".
-spec is_final(term()) -> boolean().
is_final({unusable, _, _}) -> false;
%% A leader may be deposed a moment later.
is_final({gone_on, _, _}) -> false;
is_final({ra_log_segment_crc_check_failure, _, _, _}) -> true;
is_final(Reason) -> is_problem(Reason).

-doc "The result of a function of `file` as a problem with this file.".
-spec unusable(file:filename(), ok | {error, term()}) ->
    ok | {error, problem()}.
unusable(_File, ok) ->
    ok;
unusable(File, {error, Reason}) ->
    {error, {unusable, File, file:format_error(Reason)}}.

-doc """
The cause alone, of a sentence of the native library that names the file and
ends with the words of the operating system.
""".
-spec cause(binary()) -> binary().
cause(Sentence) ->
    lists:last(binary:split(plain(Sentence), ~": ", [global])).

-doc "A sentence that has binaries, and perhaps a name that is no UTF-8.".
-spec flat(unicode:chardata()) -> string().
flat(Sentence) ->
    case unicode:characters_to_list(Sentence) of
        Text when is_list(Text) -> Text;
        _ -> lists:flatten(io_lib:format("~0tp", [Sentence]))
    end.

-doc "Such a sentence without the number of the error.".
-spec plain(binary()) -> binary().
plain(Sentence) -> hd(binary:split(Sentence, ~" (os error")).

-spec text(io:format(), [term()]) -> string().
text(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).
