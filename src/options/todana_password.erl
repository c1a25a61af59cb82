%% Reads the password of clients from its file.
-module(todana_password).
-moduledoc false.

-include_lib("kernel/include/file.hrl").

-export([read/1]).

%% Longer than any password.
-define(PASSWORD_FILE_BYTES_MAX, 4096).

%% The bits of the file mode that allow the group and others to write.
-define(WRITTEN_BY_OTHERS, 8#022).

-doc """
The password: the first line of the file, `nil` without a file. Read only when
needed, so that the arguments and the state of processes do not contain it.
""".
-spec read(off | string()) -> {ok, nil | binary()} | {error, string()}.
read(off) ->
    {ok, nil};
read(File) ->
    maybe
        ok ?= not_written_by_others(File),
        {ok, Bytes} ?= read_file(File),
        [Line | _] = binary:split(Bytes, [~"\r\n", ~"\n"]),
        case Line of
            <<>> -> {error, no_password(File, "the first line is empty")};
            Password -> {ok, Password}
        end
    else
        {error, Reason} when is_atom(Reason) ->
            {error, no_password(File, file:format_error(Reason))};
        {error, Why} ->
            {error, no_password(File, Why)}
    end.

%% A user with write access to the file could choose the password.
-spec not_written_by_others(string()) ->
    ok | {error, file:posix() | badarg | string()}.
not_written_by_others(File) ->
    case file:read_file_info(File) of
        {ok, #file_info{type = regular, mode = Mode}} when
            Mode band ?WRITTEN_BY_OTHERS =/= 0
        ->
            {error, "others than its owner may write it (chmod go-w)"};
        {ok, _} ->
            ok;
        {error, Reason} ->
            {error, Reason}
    end.

-spec read_file(string()) ->
    {ok, binary()} | {error, file:posix() | badarg | string()}.
read_file(File) ->
    maybe
        {ok, Device} ?= file:open(File, [read, raw, binary]),
        Read = file:read(Device, ?PASSWORD_FILE_BYTES_MAX + 1),
        ok = file:close(Device),
        case Read of
            {ok, Bytes} when byte_size(Bytes) > ?PASSWORD_FILE_BYTES_MAX ->
                {error, sentence("longer than ~b bytes",
                                 [?PASSWORD_FILE_BYTES_MAX])};
            {ok, Bytes} -> {ok, Bytes};
            eof -> {ok, <<>>};
            {error, Reason} -> {error, Reason}
        end
    end.

-spec no_password(string(), string()) -> string().
no_password(File, Why) ->
    sentence("password_file: ~ts: ~ts", [File, Why]).

-spec sentence(string(), [term()]) -> string().
sentence(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).
